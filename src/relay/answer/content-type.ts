/** The gateway chooses the type of an answer, never the provider: the type decides how a browser handles the bytes. */

export const JSON_TYPE = 'application/json'
export const TEXT_TYPE = 'text/plain; charset=utf-8'
export const EVENTS_TYPE = 'text/event-stream; charset=utf-8'
export const BYTES_TYPE = 'application/octet-stream'

const typesOf = (kind: string, names: string) => names.split(' ').map(name => `${kind}/${name}`)

/** Types that browsers play or show but never execute. SVG may contain scripts, so it is not among them. */
const MEDIA_TYPES: ReadonlySet<string> = new Set([
  ...typesOf(
    'audio',
    '3gpp aac aiff amr basic flac l16 m4a mp3 mp4 mpeg mpga ogg opus pcm vnd.wave wav wave webm',
  ),
  ...typesOf('audio', 'x-aac x-aiff x-flac x-m4a x-mulaw x-pcm x-wav'),
  ...typesOf('video', '3gpp mp2t mp4 mpeg ogg quicktime webm x-flv x-m4v x-matroska x-msvideo'),
  ...typesOf('image', 'avif bmp gif heic heif jpeg jpg png tiff webp'),
])

/** Parameters that are required to play audio. */
const MEDIA_PARAMETER = /;\s*(rate|channels|codecs?)=("?)([\w.,-]{1,40})\2(?=\s*(?:;|$))/gi

/** The normalized type of media on the list; undefined for any other type. */
export function mediaType(text: string | undefined): string | undefined {
  const name = text?.split(';', 1)[0]?.trim().toLowerCase() ?? ''
  if (text === undefined || !MEDIA_TYPES.has(name)) return undefined
  const parameters = [...text.matchAll(MEDIA_PARAMETER)].map(
    ([, key = '', quote, value]) => `; ${key.toLowerCase()}=${quote}${value}${quote}`,
  )
  return `${name}${parameters.join('')}`
}

/** The nearest allowed type, for a stored answer with another type. */
export function ownType(text: string): string {
  if (/^application\/(?:[\w.+-]*\+)?json\b/i.test(text)) return JSON_TYPE
  if (/^text\/event-stream\b/i.test(text)) return EVENTS_TYPE
  if (/^text\//i.test(text)) return TEXT_TYPE
  return mediaType(text) ?? BYTES_TYPE
}
