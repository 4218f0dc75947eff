import type { ServerResponse } from 'node:http'
import { Refusal } from '../domain/errors.ts'
import type { Shortage } from '../domain/shortage.ts'

/** Bytes that all requests of this process may take together. */
export type Budget = {
  /** False, and nothing is taken, where there are not so many left. */
  take(bytes: number): boolean
  give(bytes: number): void
  used(): number
}

type BudgetOptions = {
  readonly maxBytes: number
  /** Called each time that something is refused. */
  onShort(): void
}

export function createBudget({ maxBytes, onShort }: BudgetOptions): Budget {
  let used = 0
  return {
    take(bytes) {
      if (used + bytes > maxBytes) {
        onShort()
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

/** What one request has taken of a budget. It is given back at once, at its end. */
export type Share = {
  take(bytes: number): boolean
  taken(): number
  /** Counts the first time it is called; what is taken after that is given back at once. */
  end(): void
}

export function createShare(budget: Budget): Share {
  let takenBytes = 0
  let isOver = false
  return {
    take(bytes) {
      if (isOver) return true
      if (!budget.take(bytes)) return false
      takenBytes += bytes
      return true
    },
    taken: () => takenBytes,
    end() {
      isOver = true
      budget.give(takenBytes)
      takenBytes = 0
    },
  }
}

/** Less than this waits for a slow client without being counted. */
const SMALL_BYTES = 64 * 1024

/** Ends a share with its request; a large answer is in memory until the client has taken it. */
export function endShare(share: Share, response: ServerResponse): void {
  const isWaiting = !response.writableFinished && !response.destroyed && response.writableLength > SMALL_BYTES
  if (isWaiting) response.once('close', share.end)
  else share.end()
}

const RETRY_S = 1

/** What a client is told of a shortage: that it may try again, and nothing of the machine. */
export const overloaded = ({ resource }: Pick<Shortage, 'resource'>) =>
  new Refusal('overloaded', `the gateway is out of ${resource}; try again in a moment`, {
    retryAfterS: RETRY_S,
  })
