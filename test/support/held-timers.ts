import type { TestContext } from 'node:test'

/**
 * Timers of exactly this length do not fire by themselves until the end of the test: `fire` fires the newest, and lets it see a
 * clock that is later by its length. So a timeout occurs when the test says so, however slow the machine is.
 */
export function holdTimers(t: TestContext, ms: number) {
  const realTimeout = globalThis.setTimeout
  const pendingAnswers: (() => void)[] = []
  const mocked = t.mock.method(globalThis, 'setTimeout', ((
    run: () => void,
    afterMs?: number,
    ...rest: []
  ) => {
    if (afterMs !== ms) return realTimeout(run, afterMs, ...rest)
    pendingAnswers.push(run)
    return realTimeout(() => {}, 0)
  }) as typeof setTimeout)
  return {
    fire(): void {
      const run = pendingAnswers.at(-1)
      if (run === undefined) throw new Error(`no timer of ${ms} ms is set`)
      const nowMs = performance.now()
      const clock = t.mock.method(performance, 'now', () => nowMs + ms)
      try {
        run()
      } finally {
        clock.mock.restore()
      }
    },
    end: () => mocked.mock.restore(),
  }
}
