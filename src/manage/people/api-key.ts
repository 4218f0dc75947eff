import { Refusal } from '../../domain/errors.ts'
import { isAddressIn } from '../../http/address.ts'
import { createKeyCheck } from '../../identity/api-key.ts'
import { findTokenByDigest, type TokenWithAccount } from '../../store/records/tokens.ts'
import { findUser } from '../../store/records/users.ts'
import { hasKeyParameter } from '../contract/route.ts'
import type { RouteCall } from '../server/call.ts'
import type { Deps } from '../server/deps.ts'
import { markIfStale } from '../server/freshness.ts'

type KeyRequest = Pick<RouteCall, 'authorization' | 'address' | 'reply'>

const textOf = (value: unknown) => (typeof value === 'string' ? value : '')

/** The token in `Authorization`, or else in the headers of other SDKs (docs/reference/relay-api.md: Relay credentials). */
function credentialOf({ authorization, reply: { request } }: KeyRequest): string {
  const { 'x-api-key': apiKey, 'x-goog-api-key': googleKey } = request.headers
  const { key } = request.query as { key?: unknown }
  const { route } = request.routeOptions.config
  const queryKey = route && hasKeyParameter(route) ? textOf(key) : ''
  return authorization || textOf(apiKey) || textOf(googleKey) || queryKey
}

/** The error code for a forbidden address, which differs between the two error tables of the APIs. */
type AddressRefusalCode = 'forbidden' | 'ip_not_allowed'

/** The `sk-` token of a call to a management route that accepts one. */
export function createKeyHolder({ db, digest, now, ledger }: Deps, addressRefusalCode: AddressRefusalCode) {
  const checkKey = createKeyCheck({
    findToken: value => findTokenByDigest(db, value),
    findUser: id => findUser(db, id),
    digest,
    now,
  })
  return async (
    request: KeyRequest,
    options: { evenIfExpired?: boolean } = {},
  ): Promise<TokenWithAccount> => {
    // Requests that have just been answered are included.
    await markIfStale(request.reply, ledger.catchUp())
    const token = await checkKey(credentialOf(request), options)
    const allowed = JSON.parse(token.allow_ips) as string[]
    if (allowed.length > 0 && !isAddressIn(request.address, allowed))
      throw new Refusal(addressRefusalCode, `The token may not be used from the address ${request.address}.`)
    return token
  }
}
