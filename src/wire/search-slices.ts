import { setImmediate } from 'node:timers/promises'

/** The bytes that are searched synchronously: about a quarter of a millisecond for each pattern. */
const SEARCHED_BYTES = 1_048_576

/**
 * Whether a search matches in the bytes. A large body is searched in slices, which does not block the event loop. No
 * pattern of the search may be longer than `overlap` bytes.
 */
export function findInSlices(
  bytes: Buffer,
  isIn: (slice: Buffer) => boolean,
  overlap: number,
): boolean | Promise<boolean> {
  return bytes.length <= SEARCHED_BYTES ? isIn(bytes) : findInLarge(bytes, isIn, overlap)
}

async function findInLarge(
  bytes: Buffer,
  isIn: (slice: Buffer) => boolean,
  overlap: number,
): Promise<boolean> {
  for (let from = 0; from < bytes.length; from += SEARCHED_BYTES) {
    if (isIn(bytes.subarray(from, from + SEARCHED_BYTES + overlap))) return true
    await setImmediate()
  }
  return false
}
