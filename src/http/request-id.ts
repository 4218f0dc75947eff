import { randomFillSync } from 'node:crypto'

const ALPHABET = Buffer.from('0123456789ABCDEFGHJKMNPQRSTVWXYZ')
const PREFIX = 'req_'
const TIME_LENGTH = 10
const RANDOM_LENGTH = 16
const BITS_PER_CHARACTER = 5
const RANDOM_BYTES = (RANDOM_LENGTH * BITS_PER_CHARACTER) / 8
const POOL_BYTES = RANDOM_BYTES * 512

/** Two characters for each ten bits, as the number that has their two bytes. Computing them was most of the cost of an id. */
const PAIRS = Uint16Array.from({ length: 1024 }, (_, bits) =>
  Buffer.from([ALPHABET[bits >> 5] as number, ALPHABET[bits & 31] as number]).readUInt16LE(),
)

function writeTime(id: Buffer, nowMs: number): void {
  let remainder = nowMs
  for (let at = PREFIX.length + TIME_LENGTH - 1; at >= PREFIX.length; at--) {
    id[at] = ALPHABET[remainder % 32] as number
    remainder = Math.floor(remainder / 32)
  }
}

/** Writes forty random bits as eight characters. */
function writeRandom(id: Buffer, at: number, pool: Buffer, from: number): void {
  const high = pool.readUInt16BE(from)
  const low = pool.readUIntBE(from + 2, 3)
  id.writeUInt16LE(PAIRS[high >> 6] as number, at)
  id.writeUInt16LE(PAIRS[((high & 63) << 4) | (low >> 20)] as number, at + 2)
  id.writeUInt16LE(PAIRS[(low >> 10) & 1023] as number, at + 4)
  id.writeUInt16LE(PAIRS[low & 1023] as number, at + 6)
}

/**
 * `req_` and 26 characters that sort by time: 10 of milliseconds, 16 random. Random bytes are drawn for many ids at once,
 * because a single draw costs more than everything else here. The id is read from bytes, because V8 serializes an object to
 * JSON at half the speed if one of its strings was concatenated, and each record of the journal has an id.
 */
export function createRequestIds() {
  const pool = Buffer.alloc(POOL_BYTES)
  const id = Buffer.alloc(PREFIX.length + TIME_LENGTH + RANDOM_LENGTH)
  id.write(PREFIX, 'latin1')
  const randomAt = PREFIX.length + TIME_LENGTH
  let used = POOL_BYTES
  let timeMs = -1
  return function newRequestId(nowMs: number): string {
    if (used === POOL_BYTES) {
      randomFillSync(pool)
      used = 0
    }
    if (nowMs !== timeMs) {
      timeMs = nowMs
      writeTime(id, nowMs)
    }
    writeRandom(id, randomAt, pool, used)
    writeRandom(id, randomAt + RANDOM_LENGTH / 2, pool, used + RANDOM_BYTES / 2)
    used += RANDOM_BYTES
    return id.toString('latin1')
  }
}
