import type { ExportBatch } from './batch-export.ts'

export const JSON_LINES_TYPE = 'application/x-ndjson'

/** A batch of JSON lines. */
export function createLineBatch(): ExportBatch<unknown> {
  let lines: string[] = []
  return {
    add: item => void lines.push(`${JSON.stringify(item)}\n`),
    count: () => lines.length,
    take() {
      const body = Buffer.from(lines.join(''))
      lines = []
      return body
    },
  }
}
