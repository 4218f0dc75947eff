import { setFlagsFromString } from 'node:v8'
import { systemTimers, type Timers } from './timers.ts'

const TICK_MS = 10_000
/** A process that uses less of a core than this is quiet. */
const QUIET_SHARE = 0.02
/** A quiet process returns the memory of its young generation after this many ticks: a minute. */
const FIRST_QUIET_TICK = 6
/** V8 shrinks the young generation in a collection that sees few allocations, which is not always the first one. */
const LAST_QUIET_TICK = 8

/** After a trim that blocked the event loop for longer, as with some 100 MiB, the next one under load is five minutes later. */
const MAX_TRIM_MS = 10
const TICKS_AFTER_LONG_TRIM = 30

type Memory = {
  /** Returns memory that `malloc` keeps for later, and how long that took in milliseconds. */
  trim(): number
  /** Collects the garbage of the young generation. */
  collectYoung(): void
  /** Of all threads of this process, since it started. */
  cpuMs(): number
}

/**
 * Returns memory that a load has left behind to the operating system: what `malloc` keeps every ten seconds of a load, and V8's young
 * generation after a quiet minute (ADR 42). Returns a function that stops it.
 */
export function returnMemory(memory: Memory = createMemory(), timers: Timers = systemTimers): () => void {
  let lastMs = memory.cpuMs()
  let quietTicks = 0
  let ticksToTrim = 0
  return timers.every(TICK_MS, () => {
    const nowMs = memory.cpuMs()
    const isQuiet = nowMs - lastMs < TICK_MS * QUIET_SHARE
    lastMs = nowMs
    quietTicks = isQuiet ? quietTicks + 1 : 0
    const isYoungUnused = quietTicks >= FIRST_QUIET_TICK && quietTicks <= LAST_QUIET_TICK
    if (isYoungUnused) memory.collectYoung()
    ticksToTrim -= 1
    if (isYoungUnused || (!isQuiet && ticksToTrim <= 0))
      ticksToTrim = memory.trim() > MAX_TRIM_MS ? TICKS_AFTER_LONG_TRIM : 1
  })
}

const createMemory = (): Memory => ({
  trim: findTrim(),
  collectYoung: createYoungCollection(),
  cpuMs() {
    const { user, system } = process.cpuUsage()
    return (user + system) / 1_000
  },
})

/** `malloc_trim` of the C library. Systems with another library have no such function, and nothing is done. */
export function findTrim(): () => number {
  // Node.js warns that this module is experimental. It is used for this call only, and without it the gateway works the same.
  const { emitWarning } = process
  try {
    process.emitWarning = () => {}
    const { dlopen } = process.getBuiltinModule('node:ffi')
    const { functions } = dlopen(null, { malloc_trim: { arguments: ['uint64'], return: 'int32' } })
    return () => {
      const startMs = performance.now()
      functions.malloc_trim(0n)
      return performance.now() - startMs
    }
  } catch {
    // Another C library, or a Node.js without this module.
    return () => 0
  } finally {
    process.emitWarning = emitWarning
  }
}

type Collect = (options: { readonly type: 'minor' }) => void

/** V8 offers its function only to a context that is made while the flag is set. A version without it collects nothing. */
function findCollection(): Collect {
  setFlagsFromString('--expose-gc')
  try {
    const collect: unknown = process.getBuiltinModule('node:vm').runInNewContext('globalThis.gc')
    return typeof collect === 'function' ? (collect as Collect) : () => {}
  } finally {
    setFlagsFromString('--no-expose-gc')
  }
}

/** Exported for its test. */
export function createYoungCollection(): () => void {
  let collect: Collect | undefined
  return () => {
    collect ??= findCollection()
    collect({ type: 'minor' })
  }
}
