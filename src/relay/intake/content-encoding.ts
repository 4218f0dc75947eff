import type { IncomingMessage } from 'node:http'
import { createBrotliDecompress, createGunzip, createInflate, createZstdDecompress } from 'node:zlib'
import { Refusal } from '../../domain/errors.ts'

/** One layer of these; limits count inflated bytes (docs/reference/relay-api.md: Request bodies). */
const INFLATERS: Readonly<Record<string, () => NodeJS.ReadWriteStream>> = {
  gzip: createGunzip,
  'x-gzip': createGunzip,
  deflate: createInflate,
  br: createBrotliDecompress,
  zstd: createZstdDecompress,
}

/** How the body is packed; undefined where it is not. */
export function encodingOf({ headers }: IncomingMessage): string | undefined {
  const encoding = headers['content-encoding']?.trim().toLowerCase() ?? 'identity'
  return encoding === 'identity' || encoding === '' ? undefined : encoding
}

/** Creates what unpacks a body. An encoding that is not known is refused before a byte is read. */
export function inflaterFor(encoding: string): () => NodeJS.ReadWriteStream {
  const create = Object.hasOwn(INFLATERS, encoding) ? INFLATERS[encoding] : undefined
  if (!create)
    throw new Refusal(
      'unsupported_media_type',
      `Content-Encoding "${encoding.slice(0, 40)}" is not supported. Use gzip, deflate, br or zstd, and only one of them.`,
    )
  return create
}
