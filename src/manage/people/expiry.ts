import { invalidField } from '../../domain/errors.ts'
import { NEVER } from '../../domain/token.ts'

/** Missing or 0 means never, as existing clients send it; a moment that has passed is a mistake. */
export function readExpiry(given: number | undefined, now: number): number {
  if (given === undefined || given === 0) return NEVER
  if (given !== NEVER && given <= now)
    throw invalidField('expired_time', 'lies in the past; use -1 for no expiry')
  return given
}
