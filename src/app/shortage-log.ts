import type { Logger } from 'pino'
import type { Shortage } from '../domain/shortage.ts'
import { createRepeatLimit } from './repeat-limit.ts'

const EVERY_MS = 60_000

/** Logs what the machine has run out of and which setting to change: each shortage once a minute. */
export function createShortageLog(log: Pick<Logger, 'error'>, nowMs: () => number) {
  const admitLine = createRepeatLimit(EVERY_MS, nowMs)
  return function logShortage({ code, resource, advice }: Shortage): void {
    const leftOut = admitLine(code)
    if (!leftOut) return
    log.error(
      { code, ...leftOut },
      `The gateway is out of ${resource}. Requests are refused with 503. ${advice}`,
    )
  }
}
