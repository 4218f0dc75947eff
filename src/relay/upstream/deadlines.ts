/** Below this a time-out has a timer of its own, for its precision. */
const SHORT_MS = 10_000
const TICK_MS = 500

/** Cancelled when the event comes in time. */
type Deadline = { cancel(): void }

type Waiting = { readonly atMs: number; place: number; onLate(): void }

const OUT = -1

/**
 * The long time-outs of many requests, looked at together twice a second: nearly all are taken back, so setting and
 * taking back is what has to be cheap. They come up to half a second late.
 *
 * They lie in an array, each knowing its place, not in a Set: a Set that thousands enter and leave makes a new table each
 * time it is full of holes, the tables left behind point to the next one, and what they hold (here whole requests) stays
 * until V8 walks the whole heap.
 */
export function createDeadlines() {
  const waiting: Waiting[] = []
  let timer: NodeJS.Timeout | undefined

  function takeOut(each: Waiting): void {
    if (each.place === OUT) return
    const last = waiting.pop()
    if (last !== undefined && last !== each) {
      waiting[each.place] = last
      last.place = each.place
    }
    each.place = OUT
  }

  function look(): void {
    const nowMs = performance.now()
    for (const each of waiting.filter(({ atMs }) => atMs <= nowMs)) {
      // A deadline that fired before may have cancelled this one.
      if (each.place === OUT) continue
      takeOut(each)
      each.onLate()
    }
    if (waiting.length > 0) return
    clearInterval(timer)
    timer = undefined
  }

  return {
    after(ms: number, onLate: () => void): Deadline {
      if (ms < SHORT_MS) {
        const own = setTimeout(onLate, ms)
        return { cancel: () => clearTimeout(own) }
      }
      const each = { atMs: performance.now() + ms, place: waiting.length, onLate }
      waiting.push(each)
      timer ??= setInterval(look, TICK_MS)
      return { cancel: () => takeOut(each) }
    },
  }
}
