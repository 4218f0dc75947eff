import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import { NO_TOKEN } from '../../domain/token.ts'
import { assignCaller } from './admit.ts'

/** Somebody who is signed in: asking for themselves, or as one of their tokens. */
export type Person = { readonly userId: number; readonly tokenId: number }

const SIGN = 'person:'

export const credentialOfPerson = ({ userId, tokenId }: Person) => `${SIGN}${userId}:${tokenId}`

/** Undefined for a credential that is an application's. */
export function personOf(credential: string): Person | undefined {
  if (!credential.startsWith(SIGN)) return undefined
  const [userId = Number.NaN, tokenId = NO_TOKEN] = credential.slice(SIGN.length).split(':').map(Number)
  return { userId, tokenId }
}

type PlaygroundRequest = {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  /** Where on the relay it goes, such as `/v1/rerank`. */
  readonly path: string
  readonly person: Person
}

/** Relays for people without a key: the same walk, under the same rules, with somebody else having said who asks. */
export const createPlayground =
  (relay: RequestListener) =>
  ({ request, response, path, person }: PlaygroundRequest): void => {
    // What let the person in is nobody else's business from here on.
    for (const name of ['cookie', 'authorization']) delete request.headers[name]
    request.url = path
    assignCaller(request, credentialOfPerson(person))
    relay(request, response as Parameters<RequestListener>[1])
  }
