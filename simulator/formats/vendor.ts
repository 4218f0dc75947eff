import type { IncomingHttpHeaders } from 'node:http'
import type { Protocol, ProtocolRoute } from './format.ts'

/** A vendor with a protocol of its own, at a path of its own before its vendor's paths. */
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

/** The key behind this word in `authorization`. */
export const behind =
  (word: string) =>
  (headers: IncomingHttpHeaders): string | undefined =>
    new RegExp(`^${word} +(\\S+)$`, 'i').exec(headers.authorization ?? '')?.[1]

export const inHeader =
  (name: string) =>
  (headers: IncomingHttpHeaders): string | undefined => {
    const value = headers[name]
    return typeof value === 'string' ? value : undefined
  }
