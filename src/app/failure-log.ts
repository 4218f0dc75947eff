import type { Logger } from 'pino'
import { createRepeatLimit } from './repeat-limit.ts'

const EVERY_MS = 10_000

/** Logs failures that repeat while the store is unavailable: each message at most once in ten seconds, with a count. */
export function createFailureLog(log: Pick<Logger, 'warn' | 'error'>, nowMs: () => number) {
  const admitLine = createRepeatLimit(EVERY_MS, nowMs)
  return function logFailure(error: Error, message: string, level: 'warn' | 'error' = 'error'): void {
    const leftOut = admitLine(message)
    if (leftOut) log[level]({ err: error, ...leftOut }, message)
  }
}
