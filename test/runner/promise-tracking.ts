import type { AsyncHook } from 'node:async_hooks'

/**
 * Loaded before node:test, which follows every promise with an async hook so that it knows which test an uncaught error
 * belongs to. That takes up to half of the CPU time of a test. Without it, such an error still fails the run, as an error
 * outside of all tests. A running test must declare its hooks with `t`, and a suite may not `await` before it declares its tests.
 */
const hooks = process.getBuiltinModule('node:async_hooks')
const { createHook } = hooks
let promiseHook: AsyncHook | undefined
let runnerHook: AsyncHook | undefined

hooks.createHook = callbacks => {
  // The test runner is the first to create one.
  hooks.createHook = createHook
  promiseHook = createHook(callbacks)
  runnerHook = createHook({ ...callbacks, trackPromises: false })
  return runnerHook
}

/** Follows promises meanwhile: suites that are declared after an `await` belong to the suite around them. */
export async function trackPromises(declare: () => Promise<void>): Promise<void> {
  promiseHook?.enable()
  try {
    await declare()
  } finally {
    promiseHook?.disable()
    // Node.js stops following promises only when no hook at all is left.
    runnerHook?.disable()
    runnerHook?.enable()
  }
}
