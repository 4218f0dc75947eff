import { Refusal } from '../domain/errors.ts'

/** For whom a password is hashed. */
export type Requester = {
  /** Places in the queue are shared out by it: a user, or a network. */
  readonly name: string
  /** Signed in, or at least once before from the same network: never waits behind those who are not. */
  readonly isKnown: boolean
}

/** Each hash takes 19 MiB and a core for some 50 ms: two at a time, a short queue, then 503. */
const AT_ONCE = 2
/** Of the known, and as many of all others. */
const MAX_WAITING = 40
const MAX_WAITING_OF_ONE = 5

const overloaded = () =>
  new Refusal('overloaded', 'too many sign-ins at once; try again in a moment', { retryAfterS: 2 })

type Waiter = { start(): void; refuse(): void }

/** Waiters by requester. Requesters are served in turn, so that many requests of one do not delay the others. */
function createLine() {
  const waiters = new Map<string, Waiter[]>()
  let size = 0

  const lengthOf = (name: string) => waiters.get(name)?.length ?? 0

  /** Makes room at the expense of the requester with the most waiters, if that is not the one that wants it. */
  function displace(name: string): boolean {
    const [longest, line = []] = [...waiters].reduce((a, b) => (b[1].length > a[1].length ? b : a))
    if (longest === name || line.length <= lengthOf(name) + 1) return false
    line.pop()?.refuse()
    size -= 1
    return true
  }

  return {
    /** False where there is no room. */
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

/** Bounds how much is hashed at once, and shares it out fairly: no requester can keep the others from signing in. */
export function createHashQueue() {
  let running = 0
  const known = createLine()
  const unknown = createLine()
  let isKnownNext = true

  /** The two lines take turns, so that a crowd in one leaves half to the other. */
  function takeNext(): Waiter | undefined {
    isKnownNext = !isKnownNext
    return isKnownNext ? (known.take() ?? unknown.take()) : (unknown.take() ?? known.take())
  }

  return async function run<T>(requester: Requester, work: () => Promise<T>): Promise<T> {
    if (running < AT_ONCE) running += 1
    else {
      const { promise, resolve, reject } = Promise.withResolvers<void>()
      const line = requester.isKnown ? known : unknown
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
