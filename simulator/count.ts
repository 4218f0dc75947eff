import { appendFileSync, closeSync, openSync } from 'node:fs'

/** What the simulator would bill for one request: a line of the count file. */
export type CountLine = {
  readonly time: string
  readonly id: string
  readonly client_request_id: string | null
  /** The last four characters of the key. */
  readonly key_hint: string
  readonly path: string
  readonly model: string
  readonly stream: boolean
  readonly prompt_tokens: number
  readonly completion_tokens: number
  /** Further charges, by kind. */
  readonly units?: Readonly<Record<string, number>>
  /** Whether the answer was generated completely. */
  readonly finished: boolean
}

export type CountFile = { append(line: CountLine): void; close(): void }

/** Opens the count file for appending; without a path, nothing is counted. */
export function openCountFile(path: string | undefined): CountFile {
  if (path === undefined) return { append: () => {}, close: () => {} }
  const file = openSync(path, 'a')
  return {
    // Synchronous, so that the line is in the file before the last byte is sent: every answer that a client has seen is
    // counted, and a killed simulator loses no line.
    append: line => appendFileSync(file, `${JSON.stringify(line)}\n`),
    close: () => closeSync(file),
  }
}

export function hintOf(key: string): string {
  return key.length > 4 ? key.slice(-4) : ''
}
