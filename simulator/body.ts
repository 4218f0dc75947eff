import type { IncomingMessage } from 'node:http'
import { Refusal } from './refusal.ts'

export const BODY_LIMIT = 64 * 1024 * 1024

/** The text of a request's body, or nothing if the client left while sending it. */
export function readBody(request: IncomingMessage): Promise<string | undefined> {
  return new Promise((resolve, reject) => {
    let chunks: Buffer[] = []
    let size = 0
    request.on('data', (chunk: Buffer) => {
      size += chunk.length
      if (size <= BODY_LIMIT) chunks.push(chunk)
      else chunks = []
    })
    request.on('end', () => {
      // What is too large is read to its end all the same, unkept: a client still writing would miss the refusal.
      if (size > BODY_LIMIT) reject(new Refusal('too_large', `A body may have ${BODY_LIMIT} bytes at most.`))
      else resolve(Buffer.concat(chunks, size).toString('utf8'))
    })
    request.on('close', () => resolve(undefined))
  })
}
