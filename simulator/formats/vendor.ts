import type { IncomingHttpHeaders } from 'node:http'
import type { Protocol, ProtocolRoute } from './format.ts'

/** A vendor with its own protocol, under a prefix of its own. */
export const vendor = (
  name: string,
  keyOf: (headers: IncomingHttpHeaders) => string | undefined,
  routes: readonly ProtocolRoute[],
): Protocol => ({
  name,
  keyOf,
  routes,
  encodeRefusal: ({ message }) => JSON.stringify({ detail: message, message }),
  encodeFailure: ({ message }) => JSON.stringify({ detail: message, message }),
})

/** The key after this scheme in `authorization`. */
export const schemeKey =
  (word: string) =>
  (headers: IncomingHttpHeaders): string | undefined =>
    new RegExp(`^${word} +(\\S+)$`, 'i').exec(headers.authorization ?? '')?.[1]

export const inHeader =
  (name: string) =>
  (headers: IncomingHttpHeaders): string | undefined => {
    const value = headers[name]
    return typeof value === 'string' ? value : undefined
  }
