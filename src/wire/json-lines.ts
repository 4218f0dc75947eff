import { LF } from './ascii.ts'
import { parseBounded } from './json-bounds.ts'
import type { Stage } from './stage.ts'

/** A line holds one piece of an answer, at most a tool call with all of its arguments. */
const MAX_LINE_BYTES = 4 * 2 ** 20

/** Splits a stream into lines, each a JSON value. An incomplete line at the end is left out. */
export function createLineScanner(): Stage<Buffer, unknown> {
  let rest: Buffer[] = []
  let size = 0

  function take(): Buffer {
    const line = Buffer.concat(rest, size)
    rest = []
    size = 0
    return line
  }

  function keep(chunk: Buffer): void {
    rest.push(chunk)
    size += chunk.length
    if (size > MAX_LINE_BYTES) throw new Error('A line in the provider’s stream is too long.')
  }

  return {
    push(chunk) {
      const values: unknown[] = []
      let from = 0
      for (let at = chunk.indexOf(LF); at !== -1; at = chunk.indexOf(LF, from)) {
        keep(chunk.subarray(from, at))
        from = at + 1
        values.push(...valueIn(take()))
      }
      keep(chunk.subarray(from))
      return values
    },
    end() {
      try {
        return valueIn(take())
      } catch {
        // The line was cut off; the decoder reports that the stream was incomplete.
        return []
      }
    },
  }
}

function valueIn(line: Buffer): readonly unknown[] {
  const text = line.toString('utf8').trim()
  if (text === '') return []
  try {
    return [parseBounded(text)]
  } catch (cause) {
    throw new Error('A line in the provider’s stream is not JSON.', { cause })
  }
}
