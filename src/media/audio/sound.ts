import type { StoredFile } from '../../wire/multipart.ts'

/** An uploaded audio file. */
export type Sound = Pick<StoredFile, 'size' | 'read'>

const PIECE_BYTES = 1_048_576

/** The bytes of a file from an offset on, a megabyte at a time. */
export async function* piecesOf(file: Sound, start = 0): AsyncGenerator<Buffer> {
  for (let at = start; at < file.size; ) {
    const piece = await file.read(at, PIECE_BYTES)
    if (piece.length === 0) return
    yield piece
    at += piece.length
  }
}
