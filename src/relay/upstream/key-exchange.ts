import { createHmac } from 'node:crypto'
import type { JWT } from 'google-auth-library'
import type { Provider } from '../../providers/index.ts'
import { KeyRefused } from './key-refused.ts'
import type { Upstream } from './upstream.ts'

const SCOPE = 'https://www.googleapis.com/auth/cloud-platform'
const TOKEN_URL = 'https://oauth2.googleapis.com/token'
/** A token that ends sooner is fetched anew: the request that it travels with takes its time too. */
const MARGIN_MS = 60_000
const JWT_LIFE_S = 1_800
const JWT_SKEW_S = 5
const MAX_CLIENTS = 200
/** The library parses what the endpoint answers, so that it must be short. */
const MAX_TOKEN_BYTES = 65_536
const TIMEOUTS = { connectMs: 10_000, firstByteMs: 15_000, idleMs: 15_000, totalMs: 20_000 } as const

type Headers = Readonly<Record<string, string>>

const encoded = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')

/** A short token signed with the secret half of `access|secret`, whose issuer is the other half. */
function signedToken(key: string, nowS: number): string {
  const [access = '', secret = ''] = key.split('|')
  const claims = { iss: access.trim(), exp: nowS + JWT_LIFE_S, nbf: nowS - JWT_SKEW_S }
  const text = `${encoded({ alg: 'HS256', typ: 'JWT' })}.${encoded(claims)}`
  return `${text}.${createHmac('sha256', secret.trim()).update(text).digest('base64url')}`
}

type KeyFile = { readonly email: string; readonly privateKey: string; readonly tokenUrl: string }

function readKeyFile(key: string): KeyFile {
  const { client_email: email, private_key: privateKey, token_uri } = JSON.parse(key)
  if (typeof email !== 'string' || typeof privateKey !== 'string')
    throw new KeyRefused('the key file has no client_email or no private_key')
  return { email, privateKey, tokenUrl: typeof token_uri === 'string' ? token_uri : TOKEN_URL }
}

type Account = { readonly client: JWT; pending?: Promise<string> | undefined }

type KeyExchangeDeps = {
  nowMs(): number
  readonly upstream: Pick<Upstream, 'exchange'>
  /** Why an address must not be asked; undefined where it may. */
  refuseUrl(url: string): string | undefined
}

/** Turns a key that must not travel itself into the headers that do; none where it may. */
export function createKeyExchange({ nowMs, upstream, refuseUrl }: KeyExchangeDeps) {
  // Each keeps its token until that ends: one is not asked for at every request.
  const accounts = new Map<string, Account>()

  /** The way of every other request to a provider, so that the same addresses are refused. */
  async function fetchToken(tokenUrl: string, form: string): Promise<Response> {
    const outcome = await upstream.exchange({
      url: new URL(tokenUrl),
      headers: { 'content-type': 'application/x-www-form-urlencoded', accept: 'application/json' },
      body: Buffer.from(form),
      timeouts: TIMEOUTS,
      isStream: false,
      maxAnswerBytes: MAX_TOKEN_BYTES,
    }).outcome
    if (outcome.kind !== 'whole') throw new Error('the token endpoint did not answer')
    return new Response(new Uint8Array(outcome.body), {
      status: outcome.status,
      headers: { 'content-type': 'application/json' },
    })
  }

  function accountOf(key: string, Client: typeof JWT): Account {
    const cached = accounts.get(key)
    if (cached) return cached
    const { email, privateKey, tokenUrl } = readKeyFile(key)
    const refused = refuseUrl(tokenUrl)
    if (refused !== undefined) throw new KeyRefused(`the key file's token_uri ${refused}`)
    const client = new Client({
      email,
      key: privateKey,
      scopes: [SCOPE],
      additionalClaims: { aud: tokenUrl },
      eagerRefreshThresholdMillis: MARGIN_MS,
      transporterOptions: { fetchImplementation: (_url, init) => fetchToken(tokenUrl, String(init?.body)) },
    })
    const account: Account = { client }
    accounts.set(key, account)
    if (accounts.size > MAX_CLIENTS) {
      const [oldest] = accounts.keys()
      if (oldest !== undefined) accounts.delete(oldest)
    }
    return account
  }

  /** Requests that come at once wait for one token. */
  async function tokenOf(key: string): Promise<string> {
    // Most gateways never need the library: its modules are a tenth of what a start would otherwise load.
    const { JWT: Client } = await import('google-auth-library')
    const account = accountOf(key, Client)
    const { access_token: token, expiry_date: endsMs } = account.client.credentials
    if (token && Number(endsMs) > nowMs() + MARGIN_MS) return token
    account.pending ??= newToken(account.client).finally(() => {
      account.pending = undefined
    })
    return account.pending
  }

  return {
    async headersFor(provider: Provider, key: string): Promise<Headers> {
      if (provider.exchange?.takes(key) !== true) return {}
      switch (provider.exchange.scheme) {
        case 'access-secret-jwt':
          return { authorization: `Bearer ${signedToken(key, Math.floor(nowMs() / 1000))}` }
        case 'google-service-account':
          return { authorization: `Bearer ${await tokenOf(key)}` }
        default:
          return {}
      }
    },
    /** For a token that was refused before its time. */
    forget(key: string): void {
      accounts.delete(key)
    },
  }
}

async function newToken(client: JWT): Promise<string> {
  try {
    const { token } = await client.getAccessToken()
    if (token) return token
  } catch (error) {
    throw exchangeError(error)
  }
  throw new Error('the token endpoint gave no token')
}

/** The error of the library contains the request, and so a signature made with the key: only its code is reported. */
function exchangeError(error: unknown): Error {
  const { response, message } = error as { response?: { status: number; data?: unknown }; message: string }
  if (response === undefined) {
    const isUnreadable = /DECODER|PEM|asymmetric key|private key/i.test(message)
    return isUnreadable
      ? new KeyRefused('the private_key of the key file cannot be read')
      : new Error('the token endpoint could not be reached')
  }
  const { status, data } = response
  const word = (data as { error?: unknown } | undefined)?.error
  const reason = typeof word === 'string' && /^[a-z_]{1,40}$/.test(word) ? word : `status ${status}`
  return status >= 400 && status < 500 && status !== 429
    ? new KeyRefused(`the service account was refused: ${reason}`)
    : new Error(`the token endpoint failed: ${reason}`)
}

export type KeyExchange = ReturnType<typeof createKeyExchange>
