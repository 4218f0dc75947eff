import { LF } from './ascii.ts'
import { parseBounded } from './json-bounds.ts'
import type { Stage } from './stage.ts'

/** A line contains one part of a response. The longest is a tool call with all its arguments. */
const MAX_LINE_BYTES = 4 * 2 ** 20

/** Splits a stream into lines and parses each as JSON. An incomplete line at the end is omitted. */
export function createLineScanner(): Stage<Buffer, unknown> {
  let pending: Buffer[] = []
  let size = 0

  function takeLine(): Buffer {
    const line = Buffer.concat(pending, size)
    pending = []
    size = 0
    return line
  }

  function append(chunk: Buffer): void {
    pending.push(chunk)
    size += chunk.length
    if (size > MAX_LINE_BYTES) throw new Error('A line in the provider’s stream is too long.')
  }

  return {
    push(chunk) {
      const values: unknown[] = []
      let from = 0
      for (let at = chunk.indexOf(LF); at !== -1; at = chunk.indexOf(LF, from)) {
        append(chunk.subarray(from, at))
        from = at + 1
        values.push(...valueIn(takeLine()))
      }
      append(chunk.subarray(from))
      return values
    },
    end() {
      try {
        return valueIn(takeLine())
      } catch {
        // The line is incomplete; the decoder reports that the stream was incomplete.
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
