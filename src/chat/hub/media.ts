import { pictureTypeOf } from '../../wire/picture-type.ts'
import type { MediaPart, MediaSource, Part } from './hub.ts'

/** Base64 may be broken into lines; the first line break occurs within this length. */
const FIRST_LINE = 1_024
const BREAKS = /\s+/g

/** Parses `data:image/png;base64,…`; undefined for any other URL. */
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

/** Vendors reject an image whose declared type is wrong, and clients often guess it, so the first bytes decide. */
function typeOf(declaredType: string, data: string): string {
  if (declaredType !== '' && !declaredType.startsWith('image/')) return declaredType
  const [type = ''] = declaredType.split(';')
  const commonType = type === 'image/jpg' ? 'image/jpeg' : type
  return pictureTypeOf(data) ?? (commonType || 'text/plain')
}

export const dataUrl = (mediaType: string, data: string): string => `data:${mediaType};base64,${data}`

/** The URL of media, if possible: its own, or a data URL. */
export function urlOf(source: MediaSource, mediaType: string | undefined): string | undefined {
  if ('url' in source) return source.url
  if ('data' in source) return dataUrl(mediaType ?? 'application/octet-stream', source.data)
  return undefined
}

export const isImage = (part: Part): part is MediaPart => part.type === 'media' && part.kind === 'image'

/** Media for clients whose answers are text only: an image becomes Markdown. */
export function mediaText({ kind, source, mediaType, transcript }: MediaPart): string {
  if (transcript !== undefined) return transcript
  const url = urlOf(source, mediaType) ?? ''
  return kind === 'image' ? `![image](${url})` : url
}

/** The content of a plain-text document. */
export function documentText({ kind, source, mediaType = '' }: MediaPart): string | undefined {
  if (kind !== 'file') return undefined
  if ('text' in source) return source.text
  const isText = mediaType.startsWith('text/') || mediaType === 'application/json'
  return 'data' in source && isText ? Buffer.from(source.data, 'base64').toString() : undefined
}
