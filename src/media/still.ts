import { isObject, member } from '../domain/json-value.ts'
import type { StoredFile } from '../wire/multipart.ts'
import { pictureTypeOf } from '../wire/picture-type.ts'

/** An image of a request: a URL that is forwarded and never fetched, or the image itself. */
export type Still =
  | { readonly kind: 'url'; readonly url: string }
  | { readonly kind: 'data'; readonly type: string; readonly base64: string }
  | { readonly kind: 'file'; readonly file: StoredFile }

/** An image that is embedded in JSON is buffered in memory, so its limit is lower than that of an upload. */
export const MAX_STILL_BYTES = 20 * 1_048_576

const DATA = /^data:(image\/[\w.+-]+);base64,/i
const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/
/** Enough characters to tell base64 from text; the vendor checks the rest. */
const INSPECTED_CHARACTERS = 1_024
/** Base64 may be broken into lines. */
const BREAKS = /[\r\n]+/g
const USUAL_TYPE = 'image/png'

/** A URL, a data URL, bare base64, or an object around one of them; undefined: none of these. */
export function readStill(value: unknown): Still | undefined {
  if (isObject(value)) {
    const inner = member(value, 'image_url') ?? member(value, 'url')
    return typeof inner === 'string' ? readStill(inner) : undefined
  }
  if (typeof value !== 'string') return undefined
  if (/^https?:\/\//i.test(value)) return URL.canParse(value) ? { kind: 'url', url: value } : undefined
  const data = DATA.exec(value)
  const payload = data ? value.slice(data[0].length) : value
  const base64 = payload.slice(0, INSPECTED_CHARACTERS).includes('\n') ? payload.replace(BREAKS, '') : payload
  if (base64.length > (MAX_STILL_BYTES * 4) / 3 + 4 || base64.length % 4 !== 0) return undefined
  if (!BASE64.test(base64.slice(0, INSPECTED_CHARACTERS))) return undefined
  const type = data?.[1] ?? pictureTypeOf(base64) ?? USUAL_TYPE
  return { kind: 'data', type, base64 }
}

/** The image itself; undefined for a URL, which the gateway does not fetch. */
export async function inlineOf(still: Still): Promise<{ type: string; base64: string } | undefined> {
  if (still.kind === 'url') return undefined
  if (still.kind === 'data') return still
  const bytes = await still.file.read(0, still.file.size)
  return { type: still.file.type, base64: bytes.toString('base64') }
}

/** The URL of the image: its own, or a data URL. */
export async function addressOf(still: Still): Promise<string> {
  if (still.kind === 'url') return still.url
  const { type, base64 } = (await inlineOf(still)) ?? { type: '', base64: '' }
  return `data:${type};base64,${base64}`
}
