import { randomBytes } from 'node:crypto'
import { Readable } from 'node:stream'
import type { StoredFile, Upload } from './multipart.ts'

const FILE = Symbol('file')

/** A file that replaces a string of a JSON document. */
export type Embedded = { readonly [FILE]: StoredFile; readonly before: string }

/** A file that is sent in base64, after a prefix such as `data:image/png;base64,`. */
export const embed = (file: StoredFile, before = ''): Embedded => ({ [FILE]: file, before })

const isEmbedded = (value: unknown): value is Embedded =>
  typeof value === 'object' && value !== null && FILE in value

const base64Length = (size: number) => Math.ceil(size / 3) * 4

/** Encodes a file in groups of three bytes, also across chunk boundaries. */
async function* base64Of(file: StoredFile): AsyncGenerator<Buffer> {
  let remainder: Buffer = Buffer.alloc(0)
  for await (const chunk of file.open() as AsyncIterable<Buffer>) {
    const bytes = remainder.length > 0 ? Buffer.concat([remainder, chunk]) : chunk
    const end = bytes.length - (bytes.length % 3)
    remainder = bytes.subarray(end)
    if (end > 0) yield Buffer.from(bytes.toString('base64', 0, end), 'latin1')
  }
  if (remainder.length > 0) yield Buffer.from(remainder.toString('base64'), 'latin1')
}

/** Serializes a document. With embedded files, the JSON is streamed, so that no whole file is in memory. */
export function encodeDocument(document: object): Buffer | Upload {
  const files: StoredFile[] = []
  let marker = ''
  const text = JSON.stringify(document, (_name, value: unknown) => {
    if (!isEmbedded(value)) return value
    files.push(value[FILE])
    // Random, so that no client can forge it.
    marker ||= randomBytes(16).toString('hex')
    return `${value.before}${marker}`
  })
  if (files.length === 0) return Buffer.from(text)
  const texts = text.split(marker).map(piece => Buffer.from(piece))
  const length =
    texts.reduce((sum, piece) => sum + piece.length, 0) +
    files.reduce((sum, { size }) => sum + base64Length(size), 0)
  async function* bytes() {
    for (const [index, piece] of texts.entries()) {
      yield piece
      const file = files[index]
      if (file) yield* base64Of(file)
    }
  }
  return { length, open: () => Readable.from(bytes(), { objectMode: false }) }
}
