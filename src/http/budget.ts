import { Refusal } from '../domain/errors.ts'
import type { Shortage } from '../domain/shortage.ts'
import type { RelayOutgoing } from './relay-exchange.ts'

/** Bytes that all requests of this process share. */
export type Budget = {
  /** Takes the bytes, or returns false if not enough remain. */
  take(bytes: number): boolean
  give(bytes: number): void
  used(): number
}

type BudgetOptions = {
  readonly maxBytes: number
  /** Called for every refusal. */
  onShortage(): void
}

export function createBudget({ maxBytes, onShortage }: BudgetOptions): Budget {
  let used = 0
  return {
    take(bytes) {
      if (used + bytes > maxBytes) {
        onShortage()
        return false
      }
      used += bytes
      return true
    },
    give(bytes) {
      used -= bytes
    },
    used: () => used,
  }
}

/** The bytes that one request has taken of a budget. They are returned together, at its end. */
export type Share = {
  take(bytes: number): boolean
  taken(): number
  /** Returns the bytes. Later calls of `take` succeed without counting. */
  end(): void
}

/** An object of a class, because every request has one. */
class BudgetShare implements Share {
  readonly #budget: Budget
  #takenBytes = 0
  #hasEnded = false

  constructor(budget: Budget) {
    this.#budget = budget
  }

  take(bytes: number): boolean {
    if (this.#hasEnded) return true
    if (!this.#budget.take(bytes)) return false
    this.#takenBytes += bytes
    return true
  }

  taken(): number {
    return this.#takenBytes
  }

  end(): void {
    this.#hasEnded = true
    this.#budget.give(this.#takenBytes)
    this.#takenBytes = 0
  }
}

export const createShare = (budget: Budget): Share => new BudgetShare(budget)

/** Up to this many unsent bytes of a response are not counted. */
const SMALL_BYTES = 64 * 1024

/** Ends the share of a request; a large response stays counted until the client has received it. */
export function endShare(share: Share, response: RelayOutgoing): void {
  const isWaiting = !response.writableFinished && !response.destroyed && response.writableLength > SMALL_BYTES
  if (isWaiting) response.once('close', () => share.end())
  else share.end()
}

const RETRY_S = 1

/** The response for a shortage: it names the resource and no details of the machine. */
export const overloaded = ({ resource }: Pick<Shortage, 'resource'>) =>
  new Refusal('overloaded', `The gateway is out of ${resource}. Try again in a moment.`, {
    retryAfterS: RETRY_S,
  })
