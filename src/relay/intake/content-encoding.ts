import { createBrotliDecompress, createGunzip, createInflate, createZstdDecompress } from 'node:zlib'
import { Refusal } from '../../domain/errors.ts'
import type { RelayIncoming } from '../../http/relay-exchange.ts'

/** One layer of these is accepted; limits apply to decompressed bytes (docs/reference/relay-api.md: Request bodies). */
const INFLATERS: Readonly<Record<string, () => NodeJS.ReadWriteStream>> = {
  gzip: createGunzip,
  'x-gzip': createGunzip,
  deflate: createInflate,
  br: createBrotliDecompress,
  zstd: createZstdDecompress,
}

/** The content encoding of the body; undefined: not compressed. */
export function encodingOf({ headers }: RelayIncoming): string | undefined {
  const encoding = headers['content-encoding']?.trim().toLowerCase() ?? 'identity'
  return encoding === 'identity' || encoding === '' ? undefined : encoding
}

/** Creates the decompressor. An unknown encoding is refused before a byte is read. */
export function inflaterFor(encoding: string): () => NodeJS.ReadWriteStream {
  const create = Object.hasOwn(INFLATERS, encoding) ? INFLATERS[encoding] : undefined
  if (!create)
    throw new Refusal(
      'unsupported_media_type',
      `Content-Encoding "${encoding.slice(0, 40)}" is not supported. Use gzip, deflate, br or zstd, and only one of them.`,
    )
  return create
}
