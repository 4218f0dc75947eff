/** A shorter timeout gets its own timer, for precision. */
const SHORT_MS = 10_000
const TICK_MS = 500

/** Cancelled if the event occurs in time. */
export type Deadline = { cancel(): void }

const OUT = -1

/** A deadline in the array. An object of a class, because every request to a provider sets one. */
class WaitingDeadline implements Deadline {
  readonly atMs: number
  readonly onLate: () => void
  readonly #waiting: WaitingDeadline[]
  #place: number

  constructor(waiting: WaitingDeadline[], atMs: number, onLate: () => void) {
    this.atMs = atMs
    this.onLate = onLate
    this.#waiting = waiting
    this.#place = waiting.length
    waiting.push(this)
  }

  /** False: it was cancelled or has fired. */
  get isWaiting(): boolean {
    return this.#place !== OUT
  }

  cancel(): void {
    if (this.#place === OUT) return
    const last = this.#waiting.pop()
    if (last !== undefined && last !== this) {
      this.#waiting[this.#place] = last
      last.#place = this.#place
    }
    this.#place = OUT
  }
}

/**
 * The long timeouts of many requests, checked together twice a second. Nearly all are cancelled, so setting and
 * cancelling must be cheap. They fire up to half a second late. They are stored in an array with their index, not in a
 * Set: a Set with many insertions and deletions rehashes often, and its old tables keep references to entire requests
 * until a full garbage collection.
 */
export function createDeadlines() {
  const waiting: WaitingDeadline[] = []
  let timer: NodeJS.Timeout | undefined

  function fireDue(): void {
    const nowMs = performance.now()
    for (const each of waiting.filter(({ atMs }) => atMs <= nowMs)) {
      // A deadline that fired in this tick may have cancelled this one.
      if (!each.isWaiting) continue
      each.cancel()
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
      timer ??= setInterval(fireDue, TICK_MS)
      return new WaitingDeadline(waiting, performance.now() + ms, onLate)
    },
  }
}

export type Deadlines = ReturnType<typeof createDeadlines>
