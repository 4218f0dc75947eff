/** Below this a time-out has a timer of its own, for its precision. */
const SHORT_MS = 10_000
const TICK_MS = 500

/** Taken back by whoever was in time. */
export type Deadline = { cancel(): void }

type Waiting = { readonly atMs: number; onLate(): void }

/**
 * The long time-outs of many requests, looked at together twice a second: nearly all are taken back, so setting and
 * taking back is what has to be cheap. They come up to half a second late.
 */
export function createDeadlines() {
  const waiting = new Set<Waiting>()
  let timer: NodeJS.Timeout | undefined

  function look(): void {
    const nowMs = performance.now()
    for (const each of waiting) {
      if (each.atMs > nowMs) continue
      waiting.delete(each)
      each.onLate()
    }
    if (waiting.size > 0) return
    clearInterval(timer)
    timer = undefined
  }

  return {
    after(ms: number, onLate: () => void): Deadline {
      if (ms < SHORT_MS) {
        const own = setTimeout(onLate, ms)
        return { cancel: () => clearTimeout(own) }
      }
      const each = { atMs: performance.now() + ms, onLate }
      waiting.add(each)
      timer ??= setInterval(look, TICK_MS)
      return { cancel: () => void waiting.delete(each) }
    },
  }
}
