import { createHash } from 'node:crypto'

/** The ids of calls or users that a vendor accepts. */
export type IdRule = { readonly maxLength: number; readonly pattern: RegExp }

/**
 * The id itself if the vendor accepts it; otherwise a deterministic hash of it, so that a call and its result still
 * match.
 */
export function fitId(id: string, { maxLength, pattern }: IdRule): string {
  if (id.length <= maxLength && pattern.test(id)) return id
  return createHash('sha256').update(id).digest('hex').slice(0, Math.min(maxLength, 32))
}
