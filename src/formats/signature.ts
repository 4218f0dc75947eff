import type { Signature } from './hub.ts'

/**
 * A client that speaks one format must be able to hand back what a vendor of another has signed, or the next turn of a
 * tool loop fails there. Such a signature travels in the client's own field with a mark in front that says whose it is.
 */
const MARK = 'sluice:'

export const packSignature = (home: string, { format, value }: Signature): string =>
  format === home ? value : `${MARK}${format}:${value}`

export function unpackSignature(home: string, text: string): Signature {
  if (!text.startsWith(MARK)) return { format: home, value: text }
  const end = text.indexOf(':', MARK.length)
  if (end === -1) return { format: home, value: text }
  return { format: text.slice(MARK.length, end), value: text.slice(end + 1) }
}

/** The value, if it was made in this format; a foreign one would be refused. */
export const nativeSignature = (home: string, signature: Signature | undefined): string | undefined =>
  signature?.format === home ? signature.value : undefined
