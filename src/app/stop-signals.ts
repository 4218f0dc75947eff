import { setTimeout as delay } from 'node:timers/promises'

/**
 * The signals that stop the gateway (docs/reference/process.md: Stop). The first one starts the stop. During the drain delay,
 * the next one ends the delay; every other one calls `onFurther`.
 */
export function watchStopSignals(onFurther: () => void) {
  const first = Promise.withResolvers<NodeJS.Signals>()
  const second = Promise.withResolvers<void>()
  let count = 0
  let isDelaying = false
  for (const signal of ['SIGTERM', 'SIGINT'] as const)
    process.on(signal, () => {
      count += 1
      if (count === 1) first.resolve(signal)
      else if (isDelaying) second.resolve()
      else onFurther()
    })
  return {
    first: first.promise,
    /** Resolves after this time, or at the next signal. */
    async delay(ms: number): Promise<void> {
      isDelaying = true
      await Promise.race([delay(ms, undefined, { ref: false }), second.promise])
      isDelaying = false
    },
  }
}
