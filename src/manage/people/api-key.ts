import { Refusal } from '../../domain/errors.ts'
import { isAddressIn } from '../../http/address.ts'
import { createKeyCheck } from '../../identity/api-key.ts'
import { findTokenByDigest, type TokenWithAccount } from '../../store/records/tokens.ts'
import { findUser } from '../../store/records/users.ts'
import { hasKeyParameter } from '../contract/route.ts'
import type { RouteCall } from '../server/call.ts'
import type { Deps } from '../server/deps.ts'
import { markIfStale } from '../server/freshness.ts'

type Asking = Pick<RouteCall, 'authorization' | 'address' | 'reply'>

const textOf = (value: unknown) => (typeof value === 'string' ? value : '')

/** The token of `Authorization`, else of the headers of other SDKs (docs/reference/relay-api.md: Relay credentials). */
function credentialOf({ authorization, reply: { request } }: Asking): string {
  const { 'x-api-key': apiKey, 'x-goog-api-key': googleKey } = request.headers
  const { key } = request.query as { key?: unknown }
  const { route } = request.routeOptions.config
  const named = route && hasKeyParameter(route) ? textOf(key) : ''
  return authorization || textOf(apiKey) || textOf(googleKey) || named
}

/** How a route says that the address is not allowed: in the words of the error table it answers by. */
type Outside = 'forbidden' | 'ip_not_allowed'

/** The `sk-` token a call comes with, where a route of the management API takes one. */
export function createKeyHolder({ db, digest, now, ledger }: Deps, outside: Outside) {
  const checkKey = createKeyCheck({
    findToken: value => findTokenByDigest(db, value),
    findUser: id => findUser(db, id),
    digest,
    now,
  })
  return async (asking: Asking, options: { evenIfExpired?: boolean } = {}): Promise<TokenWithAccount> => {
    // What was answered a moment ago counts already.
    await markIfStale(asking.reply, ledger.catchUp())
    const token = await checkKey(credentialOf(asking), options)
    const allowed = JSON.parse(token.allow_ips) as string[]
    if (allowed.length > 0 && !isAddressIn(asking.address, allowed))
      throw new Refusal(outside, `the token may not be used from the address ${asking.address}`)
    return token
  }
}
