type Timer = { readonly atMs: number; readonly serial: number; fire(): void }

/** Lets all promises that can settle now do so. */
const settle = () => new Promise<void>(resolve => setImmediate(resolve))

/** A clock that stands still while code runs, and jumps to the next timer. The same seed gives the same order of events. */
export function createVirtualTime() {
  let nowMs = 0
  let serial = 0
  let timers: Timer[] = []

  function wait(ms: number, signal?: AbortSignal): Promise<void> {
    return new Promise(resolve => {
      if (signal?.aborted) return resolve()
      const timer: Timer = { atMs: nowMs + ms, serial: ++serial, fire: () => resolve() }
      timers.push(timer)
      signal?.addEventListener('abort', () => {
        timers = timers.filter(other => other !== timer)
        resolve()
      })
    })
  }

  return {
    nowMs: () => nowMs,
    wait,
    async run(untilMs: number): Promise<void> {
      await settle()
      for (;;) {
        const [first, ...others] = timers.sort((a, b) => a.atMs - b.atMs || a.serial - b.serial)
        if (!first || first.atMs > untilMs) break
        timers = others
        nowMs = Math.max(nowMs, first.atMs)
        first.fire()
        await settle()
      }
      nowMs = Math.max(nowMs, untilMs)
    },
  }
}

export type VirtualTime = ReturnType<typeof createVirtualTime>
