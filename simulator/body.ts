import type { IncomingMessage } from 'node:http'
import { ProviderError } from './provider-error.ts'

export const BODY_LIMIT = 128 * 1024 * 1024

/** The body, or why it is incomplete: the client disconnected, or the rest was not needed. */
export type Body =
  | { readonly kind: 'read'; readonly bytes: Buffer }
  | { readonly kind: 'left' }
  | { readonly kind: 'unwanted'; readonly start: Buffer }

/**
 * Reads a request's body to its end. If `isUnwanted` returns true for the first chunk of a longer body, the rest is not
 * read.
 */
export function readBody(
  request: IncomingMessage,
  isRestUnneeded: (start: Buffer) => boolean = () => false,
): Promise<Body> {
  return new Promise((resolve, reject) => {
    let chunks: Buffer[] = []
    let size = 0
    function isRefusable(chunk: Buffer): boolean {
      const isWhole = chunk.length === Number(request.headers['content-length'])
      try {
        return size === 0 && !isWhole && isRestUnneeded(chunk)
      } catch (error) {
        reject(error)
        return false
      }
    }
    function take(chunk: Buffer): void {
      if (isRefusable(chunk)) {
        request.off('data', take)
        request.pause()
        resolve({ kind: 'unwanted', start: chunk })
        return
      }
      size += chunk.length
      if (size <= BODY_LIMIT) chunks.push(chunk)
      else chunks = []
    }
    request.on('data', take)
    request.on('end', () => {
      // A body that is too large is read to its end and discarded: a client that is still writing could not read the error.
      if (size > BODY_LIMIT)
        reject(new ProviderError('too_large', `A body may have ${BODY_LIMIT} bytes at most.`))
      else resolve({ kind: 'read', bytes: Buffer.concat(chunks, size) })
    })
    request.on('close', () => resolve({ kind: 'left' }))
  })
}
