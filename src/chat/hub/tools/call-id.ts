import { createHash } from 'node:crypto'

/** What a vendor takes as the id of a call, or of a user. */
export type IdRule = { readonly maxLength: number; readonly pattern: RegExp }

/**
 * The id as it is where the vendor takes it; else letters and digits made of it, the same every time, so that a call and
 * its result still belong together.
 */
export function fitId(id: string, { maxLength, pattern }: IdRule): string {
  if (id.length <= maxLength && pattern.test(id)) return id
  return createHash('sha256').update(id).digest('hex').slice(0, Math.min(maxLength, 32))
}
