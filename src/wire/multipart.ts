import { randomUUID } from 'node:crypto'
import { Readable } from 'node:stream'

/**
 * A file that was received or generated. It can be read from its beginning any number of times. Its bytes may be views of memory that
 * belongs to the request: what is kept after the request must be copied.
 */
export type StoredFile = {
  readonly name: string
  readonly type: string
  readonly size: number
  open(): Readable
  /** At most `length` bytes; fewer at its end. */
  read(offset: number, length: number): Promise<Buffer>
  /** The whole file, if it is in memory. */
  inMemory?(): readonly Buffer[] | undefined
}

export type FormPart =
  | { readonly name: string; readonly value: string }
  | { readonly name: string; readonly file: StoredFile }

/** A body of known length that can be sent more than once, for retries. */
export type Upload = {
  readonly length: number
  open(): Readable
  /** The whole body, if it is in memory. A small body is one piece, because one write costs less than several. */
  inMemory?(): Buffer | readonly Buffer[] | undefined
}

/** Longer bodies are not joined: joining would cost more than several writes, and double the memory. */
const ONE_PIECE_BYTES = 256 * 1024

const BREAKERS = /["\r\n]/g
const ESCAPES: Readonly<Record<string, string>> = { '"': '%22', '\r': '%0D', '\n': '%0A' }

/** Escapes characters that would break a header, as browsers do. */
const quoted = (text: string) => `"${text.replace(BREAKERS, breaker => ESCAPES[breaker] ?? '')}"`

function headOf(part: FormPart, boundary: string): Buffer {
  const disposition = `--${boundary}\r\nContent-Disposition: form-data; name=${quoted(part.name)}`
  if (!('file' in part)) return Buffer.from(`${disposition}\r\n\r\n`)
  const { name, type } = part.file
  return Buffer.from(`${disposition}; filename=${quoted(name)}\r\nContent-Type: ${type}\r\n\r\n`)
}

/** A multipart body as a stream of known length: vendors refuse uploads without a length. */
export function encodeMultipart(parts: readonly FormPart[]): Upload & { readonly contentType: string } {
  const boundary = `sluice-${randomUUID()}`
  const pieces = parts.flatMap(part => [
    headOf(part, boundary),
    'file' in part ? part.file : Buffer.from(part.value),
    Buffer.from('\r\n'),
  ])
  const all = [...pieces, Buffer.from(`--${boundary}--\r\n`)]
  const length = all.reduce((sum, piece) => sum + (Buffer.isBuffer(piece) ? piece.length : piece.size), 0)
  function inMemory(): Buffer | readonly Buffer[] | undefined {
    const allChunks: Buffer[] = []
    for (const piece of all) {
      const chunks = Buffer.isBuffer(piece) ? [piece] : piece.inMemory?.()
      if (chunks === undefined) return undefined
      allChunks.push(...chunks)
    }
    return length > ONE_PIECE_BYTES ? allChunks : Buffer.concat(allChunks, length)
  }
  async function* bytes() {
    for (const piece of all) {
      if (Buffer.isBuffer(piece)) yield piece
      else yield* piece.open()
    }
  }
  return {
    length,
    contentType: `multipart/form-data; boundary=${boundary}`,
    open: () => Readable.from(bytes(), { objectMode: false }),
    inMemory,
  }
}
