import { fstatSync, writeSync } from 'node:fs'
import { Socket } from 'node:net'

/** Bytes buffered for a slow reader; further lines are dropped. */
const MAX_BUFFERED_BYTES = 1024 * 1024
const FLUSH_TIMEOUT_MS = 1_000
/** Lines of requests wait this long, and so many at most, to be written together. A killed process loses them. */
const WAIT_MS = 20
const MAX_WAITING = 256

/** `take` returns whether it accepted the line. */
type LineWriter = { take(line: string): boolean; finish(done: () => void): void }

/** Files are written synchronously. On a full disk lines are refused until there is space again. */
const fileAt = (fd: number): LineWriter => ({
  take(line) {
    try {
      let bytes = Buffer.from(line)
      while (bytes.length > 0) bytes = bytes.subarray(writeSync(fd, bytes))
      return true
    } catch {
      return false
    }
  },
  finish: done => done(),
})

/** Writes to a pipe without blocking, even if its reader is slow or has exited. */
function pipeAt(fd: number): LineWriter {
  const pipe = new Socket({ fd, readable: false, writable: true })
  // The reader has exited: every further line is refused.
  pipe.on('error', () => pipe.destroy())
  return {
    take(line) {
      if (!pipe.writable || pipe.writableLength > MAX_BUFFERED_BYTES) return false
      pipe.write(line)
      return true
    },
    finish(done) {
      if (!pipe.writable || pipe.writableLength === 0) return done()
      const end = () => {
        clearTimeout(timer)
        pipe.destroy()
        done()
      }
      const timer = setTimeout(end, FLUSH_TIMEOUT_MS)
      pipe.write('', end)
    },
  }
}

function writerAt(fd: number): LineWriter {
  const kind = fstatSync(fd)
  return kind.isFIFO() || kind.isSocket() ? pipeAt(fd) : fileAt(fd)
}

/** Writes log lines and never blocks a request. Lines that a full disk or a slow reader refuses are dropped and counted. */
export function createLogLines(fd: number, droppedEntry: (dropped: number) => string) {
  // Created with the first line: a silent log does not change the descriptor.
  let writer: LineWriter | undefined
  let dropped = 0
  let waiting: string[] = []
  let timer: NodeJS.Timeout | undefined

  function writeLines(lines: string, count: number): void {
    writer ??= writerAt(fd)
    if (dropped > 0) {
      if (!writer.take(droppedEntry(dropped))) {
        dropped += count
        return
      }
      dropped = 0
    }
    if (!writer.take(lines)) dropped += count
  }

  function writeWaiting(): void {
    clearTimeout(timer)
    if (waiting.length === 0) return
    const lines = waiting
    waiting = []
    writeLines(lines.join(''), lines.length)
  }

  return {
    write(line: string): void {
      writeWaiting()
      writeLines(line, 1)
    },
    /** Writes a line a moment later, together with others: every write is a system call. */
    writeSoon(line: string): void {
      if (waiting.length === 0) timer = setTimeout(writeWaiting, WAIT_MS)
      waiting.push(line)
      if (waiting.length === MAX_WAITING) writeWaiting()
    },
    /** Waits at most a second for the last lines to be read. */
    flush(done: () => void): void {
      writeWaiting()
      if (writer) writer.finish(done)
      else done()
    },
  }
}

export type LogLines = ReturnType<typeof createLogLines>
