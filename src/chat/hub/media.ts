import { pictureTypeOf } from '../../wire/picture-type.ts'
import type { MediaPart, MediaSource } from './hub.ts'

/** Tools that write base64 break it into lines, the first of which is not long. */
const FIRST_LINE = 1_024
const BREAKS = /\s+/g

/** `data:image/png;base64,…` taken apart; undefined for any other address. */
export function parseDataUrl(url: string): { readonly mediaType: string; readonly data: string } | undefined {
  if (!url.startsWith('data:')) return undefined
  const comma = url.indexOf(',')
  if (comma === -1) return undefined
  const header = url.slice('data:'.length, comma)
  const rest = url.slice(comma + 1)
  const isBase64 = header.endsWith(';base64')
  const mediaType = isBase64 ? header.slice(0, -';base64'.length) : header
  const data = isBase64 ? unbroken(rest) : escapedBytes(rest)
  return data === undefined ? undefined : { mediaType: typeOf(mediaType, data), data }
}

const unbroken = (base64: string): string =>
  /\s/.test(base64.slice(0, FIRST_LINE)) ? base64.replace(BREAKS, '') : base64

function escapedBytes(text: string): string | undefined {
  try {
    return Buffer.from(decodeURIComponent(text)).toString('base64')
  } catch {
    return undefined
  }
}

/** Vendors refuse a picture that is not what it is said to be, and clients often guess: its own bytes know better. */
function typeOf(declaredType: string, data: string): string {
  if (declaredType !== '' && !declaredType.startsWith('image/')) return declaredType
  const [type = ''] = declaredType.split(';')
  const commonType = type === 'image/jpg' ? 'image/jpeg' : type
  return pictureTypeOf(data) ?? (commonType || 'text/plain')
}

export const dataUrl = (mediaType: string, data: string): string => `data:${mediaType};base64,${data}`

/** The address of a medium, where it has one: its own, or its bytes as one. */
export function urlOf(source: MediaSource, mediaType: string | undefined): string | undefined {
  if ('url' in source) return source.url
  if ('data' in source) return dataUrl(mediaType ?? 'application/octet-stream', source.data)
  return undefined
}

/** A medium for clients whose answers are text: an image is shown the way texts show images. */
export function mediaText({ kind, source, mediaType, transcript }: MediaPart): string {
  if (transcript !== undefined) return transcript
  const url = urlOf(source, mediaType) ?? ''
  return kind === 'image' ? `![image](${url})` : url
}

/** What a document says, where it is plain text. */
export function documentText({ kind, source, mediaType = '' }: MediaPart): string | undefined {
  if (kind !== 'file') return undefined
  if ('text' in source) return source.text
  const isText = mediaType.startsWith('text/') || mediaType === 'application/json'
  return 'data' in source && isText ? Buffer.from(source.data, 'base64').toString() : undefined
}
