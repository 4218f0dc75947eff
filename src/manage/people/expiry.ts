import { invalidField } from '../../domain/errors.ts'
import { NEVER } from '../../domain/token.ts'

/** Missing or 0 means never, as existing clients send it; a moment that has passed is a mistake. */
export function readExpiry(expiredTime: number | undefined, now: number): number {
  if (expiredTime === undefined || expiredTime === 0) return NEVER
  if (expiredTime !== NEVER && expiredTime <= now)
    throw invalidField('expired_time', 'lies in the past; use -1 for no expiry')
  return expiredTime
}
