/** Milliseconds of a frame by the upper five bits of a packet's first byte (RFC 6716, section 3.1). */
const FRAME_MS = [
  ...[10, 20, 40, 60, 10, 20, 40, 60, 10, 20, 40, 60],
  ...[10, 20, 10, 20],
  ...[2.5, 5, 10, 20, 2.5, 5, 10, 20, 2.5, 5, 10, 20, 2.5, 5, 10, 20],
]
const MAX_PACKET_MS = 120

/** The duration of an Opus packet, by its first two bytes. */
export function opusPacketMs(first: number, second: number): number {
  const frame = FRAME_MS[first >> 3] ?? 0
  const code = first & 3
  const frames = code === 0 ? 1 : code === 3 ? second & 63 : 2
  return Math.min(frame * frames, MAX_PACKET_MS)
}
