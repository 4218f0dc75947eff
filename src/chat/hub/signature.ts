import type { Part, ReasoningPart, Signature, ToolCallPart } from './hub.ts'

/**
 * Clients must be able to send back signatures of a vendor of another format, or the next turn of a tool loop fails
 * there. Such a signature is packed into the signature field of the client's format: a prefix names its own format, and a
 * suffix of that name tells what was signed, unless it is the text of reasoning.
 */
const MARK = 'sluice:'
const ENCRYPTED = '!'
const CALL = '@'
const TEXT = '~'

export const packSignature = (home: string, { format, value }: Signature): string =>
  format === home ? value : `${MARK}${format}:${value}`

export function unpackSignature(home: string, text: string): Signature {
  if (!text.startsWith(MARK)) return { format: home, value: text }
  const end = text.indexOf(':', MARK.length)
  if (end === -1) return { format: home, value: text }
  return { format: text.slice(MARK.length, end), value: text.slice(end + 1) }
}

/** If a format's signatures are bytes, strict clients accept base64 only, so the prefix is encoded too. */
export const armored = (text: string): string =>
  text.startsWith(MARK) ? Buffer.from(text).toString('base64') : text

export const disarmed = (text: string): string =>
  text.startsWith(ARMORED_MARK) ? Buffer.from(text, 'base64').toString() : text

/** Without the last characters, which depend on the bytes that follow. */
const ARMORED_MARK = Buffer.from(MARK).toString('base64').slice(0, 9)

const MARKS_IN_JSON = [MARK, ARMORED_MARK].map(mark => Buffer.from(`"${mark}`))

/**
 * Whether a body contains a signature of another vendor, which the provider would reject. Such a request is translated
 * even if the format stays the same, since encoders leave foreign signatures out.
 */
export const hasForeignSignature = (body: Buffer): boolean => MARKS_IN_JSON.some(mark => body.includes(mark))

/** The value of a signature of this format; a foreign one would be rejected. */
export const nativeSignature = (home: string, signature: Signature | undefined): string | undefined =>
  signature?.format === home ? signature.value : undefined

/** The signature of reasoning, for a format that has one field for signatures and encrypted content. */
export function packReasoningSignature(
  home: string,
  { signature, encrypted }: ReasoningPart,
): string | undefined {
  if (signature !== undefined) return packSignature(home, signature)
  if (encrypted === undefined) return undefined
  const isNative = encrypted.format === home
  return packSignature(home, isNative ? encrypted : { ...encrypted, format: encrypted.format + ENCRYPTED })
}

/** `native`: the kind of the format's own signatures. */
export function unpackReasoningSignature(
  home: string,
  text: string,
  native: 'signature' | 'encrypted',
): Pick<ReasoningPart, 'signature' | 'encrypted'> {
  const unpacked = unpackSignature(home, text)
  if (unpacked.format === home) return { [native]: unpacked }
  if (!unpacked.format.endsWith(ENCRYPTED)) return { signature: unpacked }
  return { encrypted: { ...unpacked, format: unpacked.format.slice(0, -ENCRYPTED.length) } }
}

/** The signature of a call, for formats without a field for it: an empty reasoning part before the call. */
export const packCallSignature = (home: string, { signature }: ToolCallPart): string | undefined =>
  signature && packSignature(home, { ...signature, format: signature.format + CALL })

export const isCallSignature = (signature: Signature | undefined): boolean =>
  signature?.format.endsWith(CALL) ?? false

export const callSignatureOf = ({ format, value }: Signature): Signature => ({
  format: format.slice(0, -CALL.length),
  value,
})

/**
 * The signature of a text, as an empty reasoning part after it, because a stream sends it last. Clients of every format
 * send reasoning back unchanged, and most formats have no signature field on text.
 */
export const textSignatureThought = (signature: Signature): ReasoningPart => ({
  type: 'reasoning',
  text: '',
  signature: { ...signature, format: signature.format + TEXT },
})

/** The signature of a text that this reasoning part carries; undefined for ordinary reasoning. */
export function signatureOfText({ signature }: Pick<ReasoningPart, 'signature'>): Signature | undefined {
  if (!signature?.format.endsWith(TEXT)) return undefined
  return { format: signature.format.slice(0, -TEXT.length), value: signature.value }
}

/** Signs the last part if it is an unsigned text; otherwise appends an empty text with the signature. */
export function signLastText(parts: Part[], signature: Signature): void {
  const last = parts.at(-1)
  if (last?.type === 'text' && last.signature === undefined) parts[parts.length - 1] = { ...last, signature }
  else parts.push({ type: 'text', text: '', signature })
}

/**
 * Moves signatures to their parts: to the call that follows, or to the text before. A signature without its call is
 * dropped.
 */
export function attachSignatures(parts: readonly Part[]): readonly Part[] {
  const attached: Part[] = []
  let waiting: Signature | undefined
  for (const part of parts) {
    const signature = part.type === 'reasoning' ? part.signature : undefined
    if (signature !== undefined && isCallSignature(signature)) {
      waiting = callSignatureOf(signature)
      continue
    }
    const ofText = signature && signatureOfText({ signature })
    if (ofText !== undefined) signLastText(attached, ofText)
    else
      attached.push(
        part.type === 'toolCall' && waiting !== undefined ? { ...part, signature: waiting } : part,
      )
    waiting = undefined
  }
  return attached
}
