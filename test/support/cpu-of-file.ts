import { isMainThread } from 'node:worker_threads'
import { cpuSeconds, recordCost } from './cpu-times.ts'

// Loaded before a test file that has a process of its own. Lanes record each of their files themselves.
const file = process.argv[1] ?? ''
if (isMainThread && file.endsWith('.test.ts')) process.on('exit', () => recordCost(file, cpuSeconds()))
