import { isSecretName } from './secret-name.ts'

export const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}$/
export const HEADER_VALUE = /^[\t\x20-\x7e]{0,8192}$/

/** The connection's own headers: another value would break the framing of the request, or pack the answer. */
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

/** Headers of a client that say something of its own connection, its body or its way here, and nothing to a provider. */
const ITS_OWN: ReadonlySet<string> = new Set([
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

/** Whether a header of a client may reach a provider at all: never what it signs in with, never the connection's own. */
export function mayPass(name: string): boolean {
  const lower = name.toLowerCase()
  return !isFraming(lower) && !isSecretName(lower) && !lower.startsWith('proxy-')
}

/** Whether it goes along where an administrator asks for all of them, or for a pattern. */
export const passesUnnamed = (name: string) =>
  mayPass(name) && !ITS_OWN.has(name) && !name.startsWith('x-forwarded-') && !name.startsWith('sec-')

/** `{client_header:Name}`: what the client sent under that name. */
export const CLIENT_HEADER = /\{client_header:([^{}]*)\}/g
export const MAX_PLACEHOLDERS = 8
