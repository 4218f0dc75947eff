/** The type of an answer is the gateway's choice, never a provider's: a browser decides by it what to do with the bytes. */

export const JSON_TYPE = 'application/json'
export const TEXT_TYPE = 'text/plain; charset=utf-8'
export const EVENTS_TYPE = 'text/event-stream; charset=utf-8'
export const BYTES_TYPE = 'application/octet-stream'

const typesOf = (kind: string, names: string) => names.split(' ').map(name => `${kind}/${name}`)

/** What browsers play or show, and never run. Drawings (SVG) may contain scripts, so they are no media here. */
const MEDIA_TYPES: ReadonlySet<string> = new Set([
  ...typesOf(
    'audio',
    '3gpp aac aiff amr basic flac l16 m4a mp3 mp4 mpeg mpga ogg opus pcm vnd.wave wav wave webm',
  ),
  ...typesOf('audio', 'x-aac x-aiff x-flac x-m4a x-mulaw x-pcm x-wav'),
  ...typesOf('video', '3gpp mp2t mp4 mpeg ogg quicktime webm x-flv x-m4v x-matroska x-msvideo'),
  ...typesOf('image', 'avif bmp gif heic heif jpeg jpg png tiff webp'),
])

/** Parameters without which sound cannot be played. */
const MEDIA_PARAMETER = /;\s*(rate|channels|codecs?)=("?)([\w.,-]{1,40})\2(?=\s*(?:;|$))/gi

/** The type of a medium that is on the list, in the gateway's own spelling; undefined for anything else. */
export function mediaType(text: string | undefined): string | undefined {
  const name = text?.split(';', 1)[0]?.trim().toLowerCase() ?? ''
  if (text === undefined || !MEDIA_TYPES.has(name)) return undefined
  const parameters = [...text.matchAll(MEDIA_PARAMETER)].map(
    ([, key = '', quote, value]) => `; ${key.toLowerCase()}=${quote}${value}${quote}`,
  )
  return `${name}${parameters.join('')}`
}

/** The nearest type that the gateway answers with, for an answer that was saved with another one. */
export function ownType(text: string): string {
  if (/^application\/(?:[\w.+-]*\+)?json\b/i.test(text)) return JSON_TYPE
  if (/^text\/event-stream\b/i.test(text)) return EVENTS_TYPE
  if (/^text\//i.test(text)) return TEXT_TYPE
  return mediaType(text) ?? BYTES_TYPE
}
