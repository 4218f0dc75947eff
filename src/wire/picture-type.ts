/** How pictures begin, in base64. */
const MAGIC: readonly (readonly [start: string, type: string])[] = [
  ['iVBORw0KGgo', 'image/png'],
  ['/9j/', 'image/jpeg'],
  ['R0lGOD', 'image/gif'],
  ['UklGR', 'image/webp'],
]

/** The type that a picture's own first bytes tell; undefined for one of a rarer kind. */
export const pictureTypeOf = (base64: string): string | undefined =>
  MAGIC.find(([start]) => base64.startsWith(start))?.[1]
