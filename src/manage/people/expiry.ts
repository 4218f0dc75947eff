import { invalidField } from '../../domain/errors.ts'
import { NEVER } from '../../domain/token.ts'

/** Absent or 0 means never, as existing clients send it. A time in the past is an error. */
export function readExpiry(expiredTime: number | undefined, now: number): number {
  if (expiredTime === undefined || expiredTime === 0) return NEVER
  if (expiredTime !== NEVER && expiredTime <= now)
    throw invalidField('expired_time', 'must not be in the past; use -1 for no expiry')
  return expiredTime
}
