import {
  closeSync,
  createReadStream,
  fstatSync,
  openSync,
  readSync,
  renameSync,
  statSync,
  writeSync,
} from 'node:fs'
import { createInterface } from 'node:readline'
import { type Anchor, readAnchor } from './anchor.ts'

/** The size at which the file is rotated; one older file is kept. */
const MAX_ANCHOR_BYTES = 16 * 1024 * 1024
/** Larger than the longest possible line. */
const TAIL_BYTES = 1024 * 1024
const LINE_FEED = 0x0a

export const olderAnchorFile = (path: string) => `${path}.1`

const sizeOf = (path: string) => statSync(path, { throwIfNoEntry: false })?.size ?? 0

/** The end of a file, at most `TAIL_BYTES` of it. */
function readTail(path: string): Buffer {
  const size = sizeOf(path)
  if (size === 0) return Buffer.alloc(0)
  const file = openSync(path, 'r')
  try {
    const bytes = Buffer.alloc(Math.min(size, TAIL_BYTES))
    return bytes.subarray(0, readSync(file, bytes, 0, bytes.length, Math.max(0, size - bytes.length)))
  } finally {
    closeSync(file)
  }
}

/** Appends lines to a file. Other programs may rotate or empty it, so it is opened again for every line. */
export function createAnchorFile(path: string, maxBytes = MAX_ANCHOR_BYTES) {
  const open = () => openSync(path, 'a', 0o600)
  // A path that is not writable must fail at startup, not at the first anchor.
  closeSync(open())

  function append(anchor: Anchor): void {
    const tail = readTail(path)
    const file = open()
    try {
      // A power cut or a full disk may have truncated the last line: end it before the new one.
      const isTorn = fstatSync(file).size > 0 && tail.at(-1) !== LINE_FEED
      writeSync(file, `${isTorn ? '\n' : ''}${JSON.stringify(anchor)}\n`)
    } finally {
      closeSync(file)
    }
  }

  return {
    isFile: true,
    append,
    /** Rotates a full file. True if the file is new, or was rotated or emptied. */
    rotateIfFull(): boolean {
      if (sizeOf(path) > maxBytes) renameSync(path, olderAnchorFile(path))
      return sizeOf(path) === 0
    },
    last: (): Anchor | undefined =>
      readTail(path)
        .toString('utf8')
        .split('\n')
        .reverse()
        .map(readAnchor)
        .find(anchor => anchor !== undefined),
  }
}

/** The anchors of a file with their line numbers, in order; none if there is no file. */
export async function* readAnchorFile(path: string): AsyncGenerator<{ line: number; anchor: Anchor }> {
  if (sizeOf(path) === 0) return
  let line = 0
  for await (const text of createInterface({ input: createReadStream(path, 'utf8') })) {
    line += 1
    const anchor = readAnchor(text)
    if (anchor) yield { line, anchor }
  }
}
