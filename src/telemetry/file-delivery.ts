import { type FileHandle, open } from 'node:fs/promises'
import type { PostOutcome } from './http-delivery.ts'

const OWNER_ONLY = 0o600
const NEWLINE = Buffer.from('\n')

/** Whether the last line is incomplete: a full disk or a killed process may have cut it. */
async function isCut(file: FileHandle): Promise<boolean> {
  const { size } = await file.stat()
  if (size === 0) return false
  const { buffer } = await file.read({ buffer: Buffer.alloc(1), position: size - 1 })
  return !buffer.equals(NEWLINE)
}

/**
 * Appends to a file, and reports success when the bytes are on the disk. The file is opened for each batch, so that it can
 * be renamed or removed at any time.
 */
export function createFileDelivery(path: string) {
  return {
    async deliver(body: Buffer): Promise<PostOutcome> {
      try {
        const file = await open(path, 'a+', OWNER_ONLY)
        try {
          // A batch must not continue such a line.
          const bytes = (await isCut(file)) ? Buffer.concat([NEWLINE, body]) : body
          // One system call, so that lines of several workers do not mix.
          const { bytesWritten } = await file.write(bytes)
          if (bytesWritten < bytes.length)
            return { kind: 'failed', reason: 'the disk is full', retryAfterMs: undefined }
          await file.datasync()
        } finally {
          await file.close()
        }
        return { kind: 'delivered' }
      } catch (error) {
        const { code, name } = error as NodeJS.ErrnoException
        return { kind: 'failed', reason: code ?? name, retryAfterMs: undefined }
      }
    },
    close: async (): Promise<void> => {},
  }
}
