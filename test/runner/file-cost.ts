import { isMainThread } from 'node:worker_threads'

// Loaded before a test file that has a process of its own. Lanes record each of their files themselves. The threads of gateways
// load this too, so it loads nothing for them.
const file = process.argv[1] ?? ''
if (isMainThread && file.endsWith('.test.ts')) {
  const { startCost } = await import('./cost.ts')
  process.on('exit', startCost(file, 0))
}
