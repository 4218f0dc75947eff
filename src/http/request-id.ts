import { randomFillSync } from 'node:crypto'

const ALPHABET = '0123456789ABCDEFGHJKMNPQRSTVWXYZ'
const RANDOM_BYTES = 10
const TIME_LENGTH = 10
const POOL_BYTES = RANDOM_BYTES * 512

/** Two characters for each ten bits. A table, because computing them was most of the cost of an id. */
const PAIRS = Array.from({ length: 1024 }, (_, bits) => `${ALPHABET[bits >> 5]}${ALPHABET[bits & 31]}`)

function timeText(nowMs: number): string {
  let text = ''
  let remainder = nowMs
  for (let i = 0; i < TIME_LENGTH; i++) {
    text = ALPHABET[remainder % 32] + text
    remainder = Math.floor(remainder / 32)
  }
  return text
}

/** Forty bits as eight characters. */
function randomText(bytes: Buffer, at: number): string {
  const high = bytes.readUInt16BE(at)
  const low = bytes.readUIntBE(at + 2, 3)
  return (
    (PAIRS[high >> 6] as string) +
    PAIRS[((high & 63) << 4) | (low >> 20)] +
    PAIRS[(low >> 10) & 1023] +
    PAIRS[low & 1023]
  )
}

/**
 * `req_` and 26 characters that sort by time: 10 of milliseconds, 16 random. Random bytes are drawn for many ids at once,
 * because a single draw costs more than everything else here.
 */
export function createRequestIds() {
  const pool = Buffer.alloc(POOL_BYTES)
  let used = POOL_BYTES
  let timeMs = -1
  let prefix = ''
  return function newRequestId(nowMs: number): string {
    if (used === POOL_BYTES) {
      randomFillSync(pool)
      used = 0
    }
    if (nowMs !== timeMs) {
      timeMs = nowMs
      prefix = `req_${timeText(nowMs)}`
    }
    const at = used
    used += RANDOM_BYTES
    return prefix + randomText(pool, at) + randomText(pool, at + RANDOM_BYTES / 2)
  }
}
