import { requirePackage } from '../../../host/program-file.ts'
import { parseBounded } from '../../../wire/json-bounds.ts'
import type { Stage } from '../../../wire/stage.ts'

/** A decoded frame of the vendor's event streams. `kind`: `event`, `exception` or `error`. */
export type EventFrame = { readonly kind: string; readonly name: string; readonly data: unknown }

/** The vendor's maximum frame size; the minimum is the prelude with its checksums. */
const MAX_FRAME_BYTES = 16 * 2 ** 20
const MIN_FRAME_BYTES = 16

const LENGTH_BYTES = 4

/** Loaded synchronously with the first such stream, since few gateways need it. */
const codecLibrary = () =>
  requirePackage('@smithy/eventstream-codec') as typeof import('@smithy/eventstream-codec')

/** Splits bytes into binary frames. A frame that is cut off at the end is dropped; a corrupt one is an error. */
export function createFrameScanner(): Stage<Buffer, EventFrame> {
  const { EventStreamCodec } = codecLibrary()
  const codec = new EventStreamCodec(
    bytes => Buffer.from(bytes as Uint8Array).toString('utf8'),
    text => Buffer.from(text),
  )
  let rest: Buffer[] = []
  let size = 0
  let neededBytes = LENGTH_BYTES

  function read(frame: Buffer): EventFrame {
    const { headers, body } = codec.decode(frame)
    const headerText = (name: string) => String(headers[name]?.value ?? '')
    const kind = headerText(':message-type') || 'event'
    const text = Buffer.from(body).toString('utf8')
    if (kind === 'error')
      return { kind, name: headerText(':error-code'), data: headerText(':error-message') || text }
    const name = kind === 'exception' ? headerText(':exception-type') : headerText(':event-type')
    return { kind, name, data: parse(text) }
  }

  return {
    push(chunk) {
      rest.push(chunk)
      size += chunk.length
      if (size < neededBytes) return []
      const bytes = Buffer.concat(rest, size)
      const frames: EventFrame[] = []
      let from = 0
      neededBytes = LENGTH_BYTES
      while (bytes.length - from >= neededBytes) {
        const length = bytes.readUInt32BE(from)
        if (length < MIN_FRAME_BYTES || length > MAX_FRAME_BYTES) {
          throw new Error('A frame in the provider’s stream has an invalid length.')
        }
        neededBytes = length
        if (bytes.length - from < length) break
        frames.push(read(bytes.subarray(from, from + length)))
        from += length
        neededBytes = LENGTH_BYTES
      }
      rest = [bytes.subarray(from)]
      size = bytes.length - from
      return frames
    },
    end: () => [],
  }
}

function parse(text: string): unknown {
  try {
    return text === '' ? undefined : parseBounded(text)
  } catch (cause) {
    throw new Error('An event in the provider’s stream is not JSON.', { cause })
  }
}
