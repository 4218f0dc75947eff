import { Refusal } from '../domain/errors.ts'
import { isExpired } from '../domain/token.ts'
import { apiKeyOf, type Digest, tokenDigests } from './credentials.ts'
import { bearerOf } from './identify.ts'

type Token = {
  readonly id: number
  readonly user_id: number
  readonly status: number
  readonly expired_time: number
}
type Deps<T extends Token> = {
  findToken(digests: readonly string[]): Promise<T | undefined>
  findUser(id: number): Promise<{ readonly status: number } | undefined>
  digest: Digest
  now: () => number
}

const refused = (message: string) => new Refusal('invalid_api_key', message)

/** Finds an `sk-` token, or throws a 401 that says what is wrong (docs/reference/relay-api.md: Relay credentials). */
export function createKeyCheck<T extends Token>({ findToken, findUser, digest, now }: Deps<T>) {
  return async function checkKey(header: string, { evenIfExpired = false } = {}): Promise<T> {
    const sentValue = bearerOf(header)
    if (sentValue === '') throw refused('No token was sent. Use the header Authorization: Bearer sk-….')
    const value = apiKeyOf(sentValue)
    if (value === undefined) throw refused('This is not an sk- token.')
    const token = await findToken(tokenDigests(digest, value))
    if (!token) throw refused('The token is unknown or was deleted.')
    if (token.status !== 1) throw refused('The token is disabled.')
    if (!evenIfExpired && isExpired(token, now()))
      throw refused('The token has expired. Create a new one or extend it.')
    const user = await findUser(token.user_id)
    if (user?.status !== 1) throw refused('The user of the token is disabled.')
    return token
  }
}
