import type { ExportBatch } from './batch-export.ts'

export const JSON_LINES_TYPE = 'application/x-ndjson'

/** A batch of JSON lines. */
export function createLineBatch(): ExportBatch<unknown> {
  let lines: string[] = []
  let bytes = 0
  return {
    add(item) {
      const line = `${JSON.stringify(item)}\n`
      lines.push(line)
      bytes += line.length
    },
    count: () => lines.length,
    bytes: () => bytes,
    take() {
      const body = Buffer.from(lines.join(''))
      lines = []
      bytes = 0
      return body
    },
  }
}
