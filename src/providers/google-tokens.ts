import type { JWT } from 'google-auth-library'
import { KeyRefused } from './key-refused.ts'
import type { CreateTokens } from './provider.ts'

const SCOPE = 'https://www.googleapis.com/auth/cloud-platform'
const TOKEN_URL = 'https://oauth2.googleapis.com/token'
/** A token that expires sooner is renewed: the request that carries it takes time too. */
const MARGIN_MS = 60_000
const MAX_CLIENTS = 200

type KeyFile = { readonly email: string; readonly privateKey: string; readonly tokenUrl: string }

function readKeyFile(key: string): KeyFile {
  const { client_email: email, private_key: privateKey, token_uri } = JSON.parse(key)
  if (typeof email !== 'string' || typeof privateKey !== 'string')
    throw new KeyRefused('the key file has no client_email or no private_key')
  return { email, privateKey, tokenUrl: typeof token_uri === 'string' ? token_uri : TOKEN_URL }
}

type Account = { readonly client: JWT; pending?: Promise<string> | undefined }

/** Exchanges the JSON key file of a service account for an OAuth token, and caches the token until it expires. */
export const googleTokens: CreateTokens = ({ nowMs, postForm, refuseUrl }) => {
  const accounts = new Map<string, Account>()

  async function fetchToken(tokenUrl: string, form: string): Promise<Response> {
    const { status, body } = await postForm(tokenUrl, form)
    return new Response(new Uint8Array(body), { status, headers: { 'content-type': 'application/json' } })
  }

  function accountOf(key: string, Client: typeof JWT): Account {
    const existing = accounts.get(key)
    if (existing) return existing
    const { email, privateKey, tokenUrl } = readKeyFile(key)
    const reason = refuseUrl(tokenUrl)
    if (reason !== undefined) throw new KeyRefused(`the key file's token_uri ${reason}`)
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

  return {
    /** Concurrent requests share one token request. */
    async tokenFor(key) {
      // Loaded on demand: most gateways never need it, and it would add a tenth to the modules of a start.
      const { JWT: Client } = await import('google-auth-library')
      const account = accountOf(key, Client)
      const { access_token: token, expiry_date: expiresMs } = account.client.credentials
      if (token && Number(expiresMs) > nowMs() + MARGIN_MS) return token
      account.pending ??= newToken(account.client).finally(() => {
        account.pending = undefined
      })
      return account.pending
    },
    forget(key) {
      accounts.delete(key)
    },
  }
}

async function newToken(client: JWT): Promise<string> {
  try {
    const { token } = await client.getAccessToken()
    if (token) return token
  } catch (error) {
    throw safeError(error)
  }
  throw new Error('the token endpoint returned no token')
}

/** The library's errors contain the request and with it the signed assertion, so only the error code is kept. */
function safeError(error: unknown): Error {
  const { response, message } = error as { response?: { status: number; data?: unknown }; message: string }
  if (response === undefined) {
    const isUnreadable = /DECODER|PEM|asymmetric key|private key/i.test(message)
    return isUnreadable
      ? new KeyRefused('the private_key of the key file cannot be read')
      : new Error('the token endpoint could not be reached')
  }
  const { status, data } = response
  const code = (data as { error?: unknown } | undefined)?.error
  const reason = typeof code === 'string' && /^[a-z_]{1,40}$/.test(code) ? code : `status ${status}`
  return status >= 400 && status < 500 && status !== 429
    ? new KeyRefused(`the service account was refused: ${reason}`)
    : new Error(`the token endpoint failed: ${reason}`)
}
