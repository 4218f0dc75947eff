import { fstatSync, writeSync } from 'node:fs'
import { Socket } from 'node:net'

/** What waits for a reader that does not take it; more is dropped. */
const MAX_WAITING_BYTES = 1024 * 1024
const LAST_WORDS_MS = 1_000

/** Answers whether the line was taken. */
type Taker = { take(line: string): boolean; finish(done: () => void): void }

/** Files are written at once. One that cannot grow refuses a line, and takes the next when there is room again. */
const fileAt = (fd: number): Taker => ({
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

/** A pipe may have a reader that sleeps, or that left: nobody here waits for either. */
function pipeAt(fd: number): Taker {
  const pipe = new Socket({ fd, readable: false, writable: true })
  // Where the reader has left, this ends the pipe, and every further line is refused.
  pipe.on('error', () => pipe.destroy())
  return {
    take(line) {
      if (!pipe.writable || pipe.writableLength > MAX_WAITING_BYTES) return false
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
      const timer = setTimeout(end, LAST_WORDS_MS)
      pipe.write('', end)
    },
  }
}

function takerAt(fd: number): Taker {
  const kind = fstatSync(fd)
  return kind.isFIFO() || kind.isSocket() ? pipeAt(fd) : fileAt(fd)
}

/**
 * Where lines of the log go. A full disk or a reader that stopped reading costs lines, which are counted and told of,
 * and never holds up a request.
 */
export function createLogLines(fd: number, toldOf: (dropped: number) => string) {
  // Made with the first line: a log that says nothing leaves the descriptor as it is.
  let taker: Taker | undefined
  let dropped = 0

  return {
    write(line: string): void {
      taker ??= takerAt(fd)
      if (dropped > 0) {
        if (!taker.take(toldOf(dropped))) {
          dropped += 1
          return
        }
        dropped = 0
      }
      if (!taker.take(line)) dropped += 1
    },
    /** Waits a moment for the last lines to be read; then they are nobody's. */
    flush(done: () => void): void {
      if (taker) taker.finish(done)
      else done()
    },
  }
}
