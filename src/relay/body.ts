import type { IncomingMessage } from 'node:http'
import { setImmediate } from 'node:timers/promises'
import { promisify } from 'node:util'
import { brotliDecompress, gunzip, inflate, zstdDecompress } from 'node:zlib'
import { Refusal } from '../domain/errors.ts'

type Decode = (bytes: Buffer, options: { maxOutputLength: number }) => Promise<Buffer>

/** One layer of these; limits count inflated bytes (contract 3). */
const DECODERS: Readonly<Record<string, Decode>> = {
  gzip: promisify(gunzip) as Decode,
  'x-gzip': promisify(gunzip) as Decode,
  deflate: promisify(inflate) as Decode,
  br: promisify(brotliDecompress) as Decode,
  zstd: promisify(zstdDecompress) as Decode,
}

const tooLarge = (maxBytes: number) =>
  new Refusal('request_too_large', `the body is larger than ${Math.floor(maxBytes / 1_048_576)} MB`)

const BODY_TIMEOUT_MS = 60_000
const COPIED_BYTES = 4 * 1_048_576

/** Puts a large body together a few pieces at a time: all at once would hold up everybody else. */
async function assemble(chunks: readonly Buffer[], size: number): Promise<Buffer> {
  const whole = Buffer.allocUnsafeSlow(size)
  let end = 0
  let copied = 0
  for (const chunk of chunks) {
    end += chunk.copy(whole, end)
    copied += chunk.length
    if (copied < COPIED_BYTES) continue
    copied = 0
    await setImmediate()
  }
  return whole
}

const left = () => new Refusal('request_timeout', 'the client left before its request was whole')

/** The whole body, within its bounds. Small bodies come in one piece and are not copied. */
async function collect(request: IncomingMessage, maxBytes: number): Promise<Buffer> {
  const declared = Number(request.headers['content-length'] ?? 0)
  if (declared > maxBytes) throw tooLarge(maxBytes)
  // A small body comes with its head, and is whole as soon as the parser is through with what it was given: then
  // nothing has to be waited for.
  await undefined
  // It may have left while its credential was looked up; nothing would be heard of it any more.
  if (request.destroyed) throw left()
  const bytes = request.complete ? (request.read() as Buffer | null) : null
  if (bytes === null) return receive(request, maxBytes)
  if (bytes.length > maxBytes) throw tooLarge(maxBytes)
  return bytes
}

function receive(request: IncomingMessage, maxBytes: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    let size = 0
    const timer = setTimeout(() => {
      finish()
      reject(new Refusal('request_timeout', 'the request came in too slowly'))
    }, BODY_TIMEOUT_MS)
    const finish = () => {
      clearTimeout(timer)
      request.off('data', onData).off('end', onEnd).off('error', onCut).off('close', onCut)
    }
    const onData = (chunk: Buffer) => {
      size += chunk.length
      chunks.push(chunk)
      if (size <= maxBytes) return
      finish()
      request.pause()
      reject(tooLarge(maxBytes))
    }
    const onEnd = () => {
      finish()
      const [only] = chunks
      if (chunks.length === 1 && only) resolve(only)
      else if (size <= COPIED_BYTES) resolve(Buffer.concat(chunks, size))
      else resolve(assemble(chunks, size))
    }
    const onCut = () => {
      finish()
      reject(left())
    }
    request.on('data', onData).on('end', onEnd).on('error', onCut).on('close', onCut)
  })
}

/** The body as the client meant it, inflated if it was packed. */
export async function readBody(request: IncomingMessage, maxBytes: number): Promise<Buffer> {
  const encoding = request.headers['content-encoding']?.trim().toLowerCase() ?? 'identity'
  if (encoding === 'identity' || encoding === '') return collect(request, maxBytes)
  const decode = Object.hasOwn(DECODERS, encoding) ? DECODERS[encoding] : undefined
  if (!decode)
    throw new Refusal(
      'unsupported_media_type',
      `content-encoding "${encoding.slice(0, 40)}" is not taken; use gzip, deflate, br or zstd, one layer`,
    )
  const packed = await collect(request, maxBytes)
  try {
    return await decode(packed, { maxOutputLength: maxBytes })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE') throw tooLarge(maxBytes)
    throw new Refusal('invalid_json', `the body is no ${encoding}`)
  }
}
