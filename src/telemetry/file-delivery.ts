import { open } from 'node:fs/promises'
import type { PostOutcome } from './http-delivery.ts'

const OWNER_ONLY = 0o600
const NEWLINE = Buffer.from('\n')

/**
 * Appends to a file, and reports success when the bytes are on the disk. The file is opened for each batch, so that it can
 * be renamed or removed at any time.
 */
export function createFileDelivery(path: string) {
  // A full disk may have cut a line: the next batch must not continue it.
  let mayBeCut = false
  return {
    async deliver(body: Buffer): Promise<PostOutcome> {
      try {
        const file = await open(path, 'a', OWNER_ONLY)
        try {
          await file.appendFile(mayBeCut ? Buffer.concat([NEWLINE, body]) : body)
          await file.datasync()
        } finally {
          await file.close()
        }
        mayBeCut = false
        return { kind: 'delivered' }
      } catch (error) {
        mayBeCut = true
        const { code, name } = error as NodeJS.ErrnoException
        return { kind: 'failed', reason: code ?? name, retryAfterMs: undefined }
      }
    },
    close: async (): Promise<void> => {},
  }
}
