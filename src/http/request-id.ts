import { randomFillSync } from 'node:crypto'

const ALPHABET = '0123456789ABCDEFGHJKMNPQRSTVWXYZ'
const RANDOM_BYTES = 10
const POOL_BYTES = RANDOM_BYTES * 512

function base32(value: number, length: number): string {
  let text = ''
  let rest = value
  for (let i = 0; i < length; i++) {
    text = ALPHABET[rest % 32] + text
    rest = Math.floor(rest / 32)
  }
  return text
}

/**
 * `req_` and 26 characters that sort by time: 10 of milliseconds, 16 of chance. Chance is drawn from the system for many
 * ids at once: asking for it costs more than everything else here.
 */
export function createRequestIds() {
  const pool = Buffer.alloc(POOL_BYTES)
  let used = POOL_BYTES
  return function newRequestId(nowMs: number): string {
    if (used === POOL_BYTES) {
      randomFillSync(pool)
      used = 0
    }
    const high = pool.readUIntBE(used, 5)
    const low = pool.readUIntBE(used + 5, 5)
    used += RANDOM_BYTES
    return `req_${base32(nowMs, 10)}${base32(high, 8)}${base32(low, 8)}`
  }
}
