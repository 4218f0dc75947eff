import { createHmac } from 'node:crypto'
import { JWT } from 'google-auth-library'
import type { Provider } from '../../providers/index.ts'

const SCOPE = 'https://www.googleapis.com/auth/cloud-platform'
const JWT_LIFE_S = 1_800
const JWT_SKEW_S = 5
const MAX_CLIENTS = 200

type Headers = Readonly<Record<string, string>>

const encoded = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')

/** A short token signed with the secret half of `access|secret`, whose issuer is the other half. */
export function signedToken(key: string, nowS: number): string {
  const [access = '', secret = ''] = key.split('|')
  const claims = { iss: access.trim(), exp: nowS + JWT_LIFE_S, nbf: nowS - JWT_SKEW_S }
  const text = `${encoded({ alg: 'HS256', typ: 'JWT' })}.${encoded(claims)}`
  return `${text}.${createHmac('sha256', secret.trim()).update(text).digest('base64url')}`
}

/** Turns a key that must not travel itself into the headers that do; none where it may. */
export function createKeyExchange({ nowMs }: { nowMs(): number }) {
  // Each keeps its token until that ends: one is not asked for at every look at a job.
  const clients = new Map<string, JWT>()

  function clientOf(key: string): JWT {
    const known = clients.get(key)
    if (known) return known
    const { client_email: email, private_key } = JSON.parse(key) as Record<string, string>
    const client = new JWT({ email: email ?? '', key: private_key ?? '', scopes: [SCOPE] })
    clients.set(key, client)
    if (clients.size > MAX_CLIENTS) {
      const [oldest] = clients.keys()
      if (oldest !== undefined) clients.delete(oldest)
    }
    return client
  }

  return async function headersFor(provider: Provider, key: string): Promise<Headers> {
    if (provider.exchange?.takes(key) !== true) return {}
    switch (provider.exchange.scheme) {
      case 'access-secret-jwt':
        return { authorization: `Bearer ${signedToken(key, Math.floor(nowMs() / 1000))}` }
      case 'google-service-account': {
        const { token } = await clientOf(key).getAccessToken()
        return { authorization: `Bearer ${token}` }
      }
      default:
        return {}
    }
  }
}

export type KeyExchange = ReturnType<typeof createKeyExchange>
