/** The first bytes of picture formats, in base64. */
const MAGIC: readonly (readonly [start: string, type: string])[] = [
  ['iVBORw0KGgo', 'image/png'],
  ['/9j/', 'image/jpeg'],
  ['R0lGOD', 'image/gif'],
  ['UklGR', 'image/webp'],
]

/** The media type by a picture's first bytes; undefined for rarer types. */
export const pictureTypeOf = (base64: string): string | undefined =>
  MAGIC.find(([start]) => base64.startsWith(start))?.[1]
