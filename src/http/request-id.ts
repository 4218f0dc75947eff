import { randomBytes } from 'node:crypto'

const ALPHABET = '0123456789ABCDEFGHJKMNPQRSTVWXYZ'

function base32(value: number, length: number): string {
  let text = ''
  let rest = value
  for (let i = 0; i < length; i++) {
    text = ALPHABET[rest % 32] + text
    rest = Math.floor(rest / 32)
  }
  return text
}

/** `req_` and 26 characters that sort by time: 10 of milliseconds, 16 of chance. */
export function newRequestId(nowMs: number): string {
  const random = randomBytes(10)
  const high = random.readUIntBE(0, 5)
  const low = random.readUIntBE(5, 5)
  return `req_${base32(nowMs, 10)}${base32(high, 8)}${base32(low, 8)}`
}
