import { Refusal } from '../domain/errors.ts'

/** The user or network that a password is hashed for. */
export type Requester = {
  /** The queue is shared fairly between these names. */
  readonly name: string
  /** Is signed in, or has signed in before from the same network. Never waits behind unknown requesters. */
  readonly isKnown: boolean
}

/** Concurrent hashes. Each takes 19 MiB and a core for about 50 ms. Above a short queue, requests are refused with 503. */
const AT_ONCE = 2
/** Of known requesters, and as many of unknown ones. */
const MAX_WAITING = 40
const MAX_WAITING_OF_ONE = 5

const overloaded = () =>
  new Refusal('overloaded', 'Too many sign-ins at once. Try again in a moment.', { retryAfterS: 2 })

type Waiter = { start(): void; refuse(): void }

/** A queue by requester. Requesters are served in turn, so that many requests of one do not delay the others. */
function createFairQueue() {
  const waiters = new Map<string, Waiter[]>()
  let size = 0

  const lengthOf = (name: string) => waiters.get(name)?.length ?? 0

  /** Refuses a waiter of the requester with the most waiters. False if that is the new requester itself. */
  function displace(name: string): boolean {
    const [longest, line = []] = [...waiters].reduce((a, b) => (b[1].length > a[1].length ? b : a))
    if (longest === name || line.length <= lengthOf(name) + 1) return false
    line.pop()?.refuse()
    size -= 1
    return true
  }

  return {
    /** False if there is no room. */
    add(name: string, waiter: Waiter): boolean {
      if (lengthOf(name) >= MAX_WAITING_OF_ONE) return false
      if (size >= MAX_WAITING && !displace(name)) return false
      const line = waiters.get(name) ?? []
      line.push(waiter)
      waiters.set(name, line)
      size += 1
      return true
    },
    take(): Waiter | undefined {
      const [first] = waiters
      if (!first) return undefined
      const [name, line] = first
      waiters.delete(name)
      const waiter = line.shift()
      if (line.length > 0) waiters.set(name, line)
      size -= 1
      return waiter
    },
  }
}

/** Limits concurrent hashing and shares it fairly: no requester can keep the others from signing in. */
export function createHashQueue() {
  let running = 0
  const knownQueue = createFairQueue()
  const unknownQueue = createFairQueue()
  let isKnownNext = true

  /** The two queues take turns, so that a full one leaves half of the capacity to the other. */
  function takeNext(): Waiter | undefined {
    isKnownNext = !isKnownNext
    return isKnownNext
      ? (knownQueue.take() ?? unknownQueue.take())
      : (unknownQueue.take() ?? knownQueue.take())
  }

  return async function run<T>(requester: Requester, work: () => Promise<T>): Promise<T> {
    if (running < AT_ONCE) running += 1
    else {
      const { promise, resolve, reject } = Promise.withResolvers<void>()
      const line = requester.isKnown ? knownQueue : unknownQueue
      const isAdded = line.add(requester.name, { start: resolve, refuse: () => reject(overloaded()) })
      if (!isAdded) throw overloaded()
      await promise
    }
    try {
      return await work()
    } finally {
      const next = takeNext()
      if (next) next.start()
      else running -= 1
    }
  }
}
