import type { Citation } from './hub.ts'

/**
 * The address of what a citation names. Clients of some formats know pages only, so that a stored file or a document of the
 * request is named by an address that says which one it is and leads nowhere. Undefined where nothing is named at all.
 */
export function addressOf({ url, file, title }: Citation): string | undefined {
  if (url !== undefined) return url
  const names = file === undefined ? [title] : [file.container, file.id]
  const path = names
    .filter(name => name !== undefined && name !== '')
    .map(name => encodeURIComponent(String(name)))
  return path.length === 0 ? undefined : `file:///${path.join('/')}`
}
