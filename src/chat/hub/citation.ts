import type { Citation } from './hub.ts'

/**
 * The URL of a citation. Some formats can cite web pages only: there, a stored file or a document of the request gets an
 * identifying URL that cannot be opened. Undefined: the citation names no source.
 */
export function addressOf({ url, file, title }: Citation): string | undefined {
  if (url !== undefined) return url
  const names = file === undefined ? [title] : [file.container, file.id]
  const path = names
    .filter(name => name !== undefined && name !== '')
    .map(name => encodeURIComponent(String(name)))
  return path.length === 0 ? undefined : `file:///${path.join('/')}`
}
