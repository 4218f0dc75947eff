/** A shorter timeout gets its own timer, for precision. */
const SHORT_MS = 10_000
const TICK_MS = 500

/** Cancelled if the event occurs in time. */
export type Deadline = { cancel(): void }

type Waiting = { readonly atMs: number; place: number; onLate(): void }

const OUT = -1

/**
 * The long timeouts of many requests, checked together twice a second. Nearly all are cancelled, so setting and
 * cancelling must be cheap. They fire up to half a second late. They are stored in an array with their index, not in a
 * Set: a Set with many insertions and deletions rehashes often, and its old tables keep references to entire requests
 * until a full garbage collection.
 */
export function createDeadlines() {
  const waiting: Waiting[] = []
  let timer: NodeJS.Timeout | undefined

  function remove(each: Waiting): void {
    if (each.place === OUT) return
    const last = waiting.pop()
    if (last !== undefined && last !== each) {
      waiting[each.place] = last
      last.place = each.place
    }
    each.place = OUT
  }

  function fireDue(): void {
    const nowMs = performance.now()
    for (const each of waiting.filter(({ atMs }) => atMs <= nowMs)) {
      // A deadline that fired in this tick may have cancelled this one.
      if (each.place === OUT) continue
      remove(each)
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
      timer ??= setInterval(fireDue, TICK_MS)
      return { cancel: () => remove(each) }
    },
  }
}

export type Deadlines = ReturnType<typeof createDeadlines>
