/** A response as a strict reader understands it. */
export type StrictReading = {
  readonly status: number
  /** Lower-case names and trimmed values, in the order of the lines. */
  readonly headers: readonly (readonly [string, string])[]
  readonly body: string
  /** The bytes after the response. */
  readonly rest: string
}

const STATUS_LINE = /^HTTP\/1\.([01]) ([1-9][0-9]{2})(?: [\t\x20-\x7e\x80-\xff]*)?\r\n/
const HEADER_LINE = /^([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*([\t\x20-\x7e\x80-\xff]*)\r\n/
const CHUNK_LINE = /^([0-9a-fA-F]{1,8})\r\n/

const FRAMING = new Set(['content-length', 'transfer-encoding'])

const trimmed = (value: string) => value.replace(/[ \t]+$/, '')

/** The header lines up to the empty line, and what follows; undefined if they are malformed or not complete. */
function readLines(text: string) {
  const headers: [string, string][] = []
  let rest = text
  while (!rest.startsWith('\r\n')) {
    const match = HEADER_LINE.exec(rest)
    if (match === null) return undefined
    headers.push([(match[1] as string).toLowerCase(), trimmed(match[2] as string)])
    rest = rest.slice(match[0].length)
  }
  return { headers, rest: rest.slice(2) }
}

function readChunks(text: string) {
  let body = ''
  let rest = text
  for (;;) {
    const match = CHUNK_LINE.exec(rest)
    if (match === null) return undefined
    const size = Number.parseInt(match[1] as string, 16)
    rest = rest.slice(match[0].length)
    if (size === 0) {
      const trailers = readLines(rest)
      // A length or coding after the body could only mislead.
      if (trailers?.headers.some(([name]) => FRAMING.has(name))) return undefined
      return trailers && { body, rest: trailers.rest }
    }
    if (rest.length < size + 2 || rest.slice(size, size + 2) !== '\r\n') return undefined
    body += rest.slice(0, size)
    rest = rest.slice(size + 2)
  }
}

/**
 * A second reading of responses, written from RFC 9112 and independent of llhttp. It reads one complete final response
 * with the most common framing only; undefined: it does not accept the text.
 */
export function readStrictly(text: string, method: string): StrictReading | undefined {
  const line = STATUS_LINE.exec(text)
  if (line === null) return undefined
  const head = readLines(text.slice(line[0].length))
  if (head === undefined) return undefined
  const status = Number(line[2])
  const { headers, rest } = head
  if (headers.length > 100 || status === 101) return undefined
  const lengths = headers.filter(([name]) => name === 'content-length').map(([, value]) => value)
  const codings = headers.filter(([name]) => name === 'transfer-encoding').map(([, value]) => value)
  if (lengths.length + codings.length > 1) return undefined
  // llhttp reads tabs after these values in another way.
  if (/^(content-length|transfer-encoding):.*\t *\r$/im.test(text)) return undefined
  const [length] = lengths
  if (length !== undefined && !/^[0-9]{1,9}$/.test(length)) return undefined
  const [coding] = codings
  if (coding !== undefined && (coding.toLowerCase() !== 'chunked' || line[1] === '0')) return undefined
  if (status < 200)
    return line[1] === '0' || headers.some(([name]) => name === 'connection')
      ? undefined
      : readStrictly(rest, method)
  if (status === 204 || status === 304 || method === 'HEAD') return { status, headers, body: '', rest }
  if (coding !== undefined) {
    const content = readChunks(rest)
    return content && { status, headers, ...content }
  }
  // Without a length the response ends with the connection.
  if (length === undefined) return { status, headers, body: rest, rest: '' }
  const size = Number(length)
  return rest.length < size
    ? undefined
    : { status, headers, body: rest.slice(0, size), rest: rest.slice(size) }
}
