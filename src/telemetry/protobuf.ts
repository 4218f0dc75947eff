const FIRST_BYTES = 65_536
const MAX_REUSED_BYTES = 2_097_152
const MAX_VARINT_BYTES = 10
const MAX_ONE_BYTE = 0x7f
/** Of a UTF-16 code unit. */
export const MAX_UTF8_BYTES = 3
const TWO_32 = 4_294_967_296

/** The number of a field and its wire type, as they precede the value. Field numbers up to 15 fit into one byte. */
export const lengthField = (number: number) => (number << 3) | 2
export const varintField = (number: number) => number << 3
export const fixed64Field = (number: number) => (number << 3) | 1

/** The bytes of protobuf messages, written so far up to `at`. */
export type ProtobufBytes = { bytes: Buffer; at: number }

export const openProtobuf = (): ProtobufBytes => ({ bytes: Buffer.allocUnsafe(FIRST_BYTES), at: 0 })

/** Everything written so far; nothing is left afterwards. */
export function takeProtobuf(out: ProtobufBytes): Buffer {
  const bytes = out.bytes.subarray(0, out.at)
  out.bytes = Buffer.allocUnsafe(FIRST_BYTES)
  out.at = 0
  return bytes
}

/** Calls back with everything written so far, which is overwritten afterwards: the next messages use the same memory. */
export function readProtobuf<Result>(out: ProtobufBytes, read: (bytes: Buffer) => Result): Result {
  const result = read(out.bytes.subarray(0, out.at))
  if (out.bytes.length > MAX_REUSED_BYTES) out.bytes = Buffer.allocUnsafe(FIRST_BYTES)
  out.at = 0
  return result
}

/** Makes room for this many further bytes. */
export function reserve(out: ProtobufBytes, count: number): void {
  if (out.at + count <= out.bytes.length) return
  const larger = Buffer.allocUnsafe(Math.max(out.bytes.length * 2, out.at + count))
  out.bytes.copy(larger, 0, 0, out.at)
  out.bytes = larger
}

/** Writes a whole number at a position, and returns the position after it. */
export function putVarint(bytes: Buffer, start: number, value: number): number {
  if (value < 0) return putNegative(bytes, start, value)
  let at = start
  let rest = value
  while (rest > MAX_ONE_BYTE) {
    bytes[at++] = (rest % 128) | 0x80
    rest = rest < TWO_32 ? rest >>> 7 : Math.floor(rest / 128)
  }
  bytes[at++] = rest
  return at
}

/** As its two's complement of 64 bits. */
function putNegative(bytes: Buffer, start: number, value: number): number {
  let at = start
  let rest = BigInt.asUintN(64, BigInt(value))
  for (; rest > 0x7fn; rest >>= 7n) bytes[at++] = Number(rest & 0x7fn) | 0x80
  bytes[at++] = Number(rest)
  return at
}

/** Begins a field whose length precedes it: one byte is left for the length. Returns the position of the content. */
export function begin(out: ProtobufBytes, field: number): number {
  reserve(out, 2)
  out.bytes[out.at] = field
  out.at += 2
  return out.at
}

/** Ends the field that begins at `start`. If its length needs more than one byte, the content moves. */
export function end(out: ProtobufBytes, start: number): void {
  const length = out.at - start
  if (length <= MAX_ONE_BYTE) {
    out.bytes[start - 1] = length
    return
  }
  const extra = length < 2 ** 14 ? 1 : length < 2 ** 21 ? 2 : 3
  reserve(out, extra)
  out.bytes.copyWithin(start + extra, start, out.at)
  out.at += extra
  putVarint(out.bytes, start - 1, length)
}

const TWO_BYTES = 2 ** 14

/** As `begin`, for a field of 128 to 16,383 bytes: two bytes are left for the length, so that the content need not move. */
export function beginLong(out: ProtobufBytes, field: number): number {
  reserve(out, 3)
  out.bytes[out.at] = field
  out.at += 3
  return out.at
}

/** Ends the field that `beginLong` began. It may have any length. */
export function endLong(out: ProtobufBytes, start: number): void {
  const length = out.at - start
  if (length <= MAX_ONE_BYTE || length >= TWO_BYTES) {
    // Moved to where `begin` would have written it.
    out.bytes.copyWithin(start - 1, start, out.at)
    out.at -= 1
    end(out, start - 1)
    return
  }
  out.bytes[start - 2] = (length & MAX_ONE_BYTE) | 0x80
  out.bytes[start - 1] = length >>> 7
}

export function delimited(out: ProtobufBytes, field: number, write: () => void): void {
  const start = begin(out, field)
  write()
  end(out, start)
}

export function writeText(out: ProtobufBytes, field: number, value: string): void {
  const start = begin(out, field)
  reserve(out, value.length * MAX_UTF8_BYTES)
  out.at = start + out.bytes.write(value, start)
  end(out, start)
}

export function writeInteger(out: ProtobufBytes, field: number, value: number): void {
  reserve(out, 1 + MAX_VARINT_BYTES)
  out.bytes[out.at] = field
  out.at = putVarint(out.bytes, out.at + 1, value)
}

/** In a packed list, `field` is absent. */
export function writeDouble(out: ProtobufBytes, value: number, field?: number): void {
  reserve(out, 9)
  if (field !== undefined) out.bytes[out.at++] = field
  out.at = out.bytes.writeDoubleLE(value, out.at)
}

function putFixed64(bytes: Buffer, at: number, high: number, low: number): number {
  bytes[at] = low
  bytes[at + 1] = low >>> 8
  bytes[at + 2] = low >>> 16
  bytes[at + 3] = low >>> 24
  bytes[at + 4] = high
  bytes[at + 5] = high >>> 8
  bytes[at + 6] = high >>> 16
  bytes[at + 7] = high >>> 24
  return at + 8
}

/** A whole number of 64 bits. In a packed list, `field` is absent. */
export function writeFixed64(out: ProtobufBytes, value: number, field?: number): void {
  reserve(out, 9)
  if (field !== undefined) out.bytes[out.at++] = field
  out.at = putFixed64(out.bytes, out.at, Math.floor(value / TWO_32), value % TWO_32)
}

/** A time in milliseconds as nanoseconds, exact to the microsecond. A number cannot hold the nanoseconds. */
export function writeNanoseconds(out: ProtobufBytes, field: number, ms: number): void {
  reserve(out, 9)
  const us = Math.round(ms * 1000)
  const low = (us % TWO_32) * 1000
  const high = Math.floor(us / TWO_32) * 1000 + Math.floor(low / TWO_32)
  out.bytes[out.at] = field
  out.at = putFixed64(out.bytes, out.at + 1, high, low % TWO_32)
}

/** Bytes, passed as hexadecimal digits. */
export function writeHex(out: ProtobufBytes, field: number, digits: string): void {
  const length = digits.length / 2
  reserve(out, 2 + length)
  out.bytes[out.at] = field
  out.bytes[out.at + 1] = length
  out.bytes.write(digits, out.at + 2, 'hex')
  out.at += 2 + length
}

export function writeRaw(out: ProtobufBytes, more: Uint8Array): void {
  reserve(out, more.length)
  out.bytes.set(more, out.at)
  out.at += more.length
}
