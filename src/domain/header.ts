import { isSecretName } from './secret-name.ts'

export const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}$/
export const HEADER_VALUE = /^[\t\x20-\x7e]{0,8192}$/

/** Headers that the HTTP client sets. Another value would break the framing of the request or compress the response. */
const FRAMING: ReadonlySet<string> = new Set([
  'accept-encoding',
  'connection',
  'content-length',
  'expect',
  'keep-alive',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
])

export const isFraming = (name: string) => FRAMING.has(name.toLowerCase())

/** Client headers that describe the client's own connection, body or route. */
const CLIENT_ONLY: ReadonlySet<string> = new Set([
  'accept',
  'content-encoding',
  'content-type',
  'forwarded',
  'host',
  'origin',
  'referer',
  'via',
  'x-client-request-id',
  'x-real-ip',
])

/** Whether a client header may be forwarded to a provider at all: never credentials, never headers of the connection. */
export function mayForward(name: string): boolean {
  const lower = name.toLowerCase()
  return (
    !isFraming(lower) && !isSecretName(lower) && !lower.startsWith('proxy-') && !lower.startsWith('x-sluice-')
  )
}

/** Whether a client header is forwarded when an administrator forwards all headers, or a pattern of names. */
export const isForwardedByDefault = (name: string) =>
  mayForward(name) && !CLIENT_ONLY.has(name) && !name.startsWith('x-forwarded-') && !name.startsWith('sec-')

/** `{client_header:Name}`: the value of that header in the client's request. */
export const CLIENT_HEADER = /\{client_header:([^{}]*)\}/g
export const MAX_PLACEHOLDERS = 8
