import { NO_TOKEN } from '../../domain/token.ts'
import type { RelayIncoming, RelayListener, RelayOutgoing } from '../../http/relay-exchange.ts'
import { assignCaller } from './admit.ts'

/** A signed-in user: without a token, or with one of the user's tokens; perhaps with a channel that an administrator chose. */
export type Person = {
  readonly userId: number
  readonly tokenId: number
  readonly channelId?: number | undefined
}

const SIGN = 'person:'

export const credentialOfPerson = ({ userId, tokenId, channelId }: Person) =>
  `${SIGN}${userId}:${tokenId}${channelId === undefined ? '' : `:${channelId}`}`

/** Undefined for the credential of a token. */
export function personOf(credential: string): Person | undefined {
  if (!credential.startsWith(SIGN)) return undefined
  const [userId = Number.NaN, tokenId = NO_TOKEN, channelId] = credential
    .slice(SIGN.length)
    .split(':')
    .map(Number)
  return { userId, tokenId, channelId }
}

type PlaygroundRequest = {
  readonly request: RelayIncoming
  readonly response: RelayOutgoing
  /** The relay path of the request, such as `/v1/rerank`. */
  readonly path: string
  readonly person: Person
}

/** Relays requests of signed-in users by the same rules as other requests; the console session replaces the token. */
export const createPlayground =
  (relay: RelayListener) =>
  ({ request, response, path, person }: PlaygroundRequest): void => {
    // The session's credentials must not reach a provider.
    for (const name of ['cookie', 'authorization']) delete request.headers[name]
    request.url = path
    assignCaller(request, credentialOfPerson(person))
    relay(request, response)
  }
