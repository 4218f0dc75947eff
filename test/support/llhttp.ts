import { type Llhttp, loadLlhttp, NO_BODY, OK, PAUSED, RESPONSE } from '../../src/http1/client/llhttp.ts'

/** The size of the region into which a piece is copied. */
const REGION_BYTES = 64 * 1024

/** What llhttp, with its strict defaults, read of the bytes of a connection. */
export type OracleReading = {
  readonly status: number
  /** Lower-case names and values, in the order of the lines. */
  readonly headers: readonly (readonly [string, string])[]
  readonly body: string
  readonly isComplete: boolean
  /** The response is complete when the connection closes. */
  readonly isCompleteAtClose: boolean
  readonly isPersistent: boolean
  readonly error: number
}

/** The client itself knows which responses end with the connection. */
type LlhttpWithEnd = Llhttp & { llhttp_finish(parser: number): number }

/** Node's own grammar of HTTP/1.1, from the WebAssembly build that undici contains. It reads one final response. */
export function createOracle() {
  let text = ''
  let base = 0
  let status = 0
  let headers: [string, string][] = []
  let field = ''
  let value = ''
  let wasValue = false
  let body = ''
  let isComplete = false
  let isPersistent = false
  let method = 'GET'

  const piece = (at: number, length: number) => text.slice(at - base, at - base + length)
  const closeLine = () => {
    // Lines after the head of the final response are trailers.
    if (wasValue && status < 200) headers.push([field.toLowerCase(), value])
    if (wasValue) field = ''
    value = ''
    wasValue = false
  }

  const llhttp = loadLlhttp({
    wasm_on_message_begin: () => 0,
    wasm_on_url: () => 0,
    wasm_on_status: () => 0,
    wasm_on_header_field: (_parser: number, at: number, length: number) => {
      if (wasValue) closeLine()
      field += piece(at, length)
      return 0
    },
    wasm_on_header_value: (_parser: number, at: number, length: number) => {
      value += piece(at, length)
      wasValue = true
      return 0
    },
    wasm_on_headers_complete: (_parser: number, code: number, _upgrade: number, persistent: number) => {
      closeLine()
      status = code
      isPersistent = persistent === 1
      const isBodiless = code < 200 || code === 204 || code === 304 || method === 'HEAD'
      return isBodiless ? NO_BODY : OK
    },
    wasm_on_body: (_parser: number, at: number, length: number) => {
      body += piece(at, length)
      return 0
    },
    wasm_on_message_complete: () => {
      closeLine()
      // An informational response: the final one follows.
      if (status < 200) {
        headers = []
        return 0
      }
      isComplete = true
      // Bytes after the response are not its business.
      return PAUSED
    },
  })
  const region = llhttp.malloc(REGION_BYTES)

  return function read(pieces: readonly Buffer[], requestMethod = 'GET'): OracleReading {
    status = 0
    headers = []
    field = ''
    value = ''
    wasValue = false
    body = ''
    isComplete = false
    isPersistent = false
    method = requestMethod
    const parser = llhttp.llhttp_alloc(RESPONSE)
    base = region
    let error = OK
    for (const bytes of pieces) {
      if (bytes.length > REGION_BYTES) throw new Error('the piece is too long for the oracle')
      new Uint8Array(llhttp.memory.buffer, region, bytes.length).set(bytes)
      text = bytes.toString('latin1')
      error = llhttp.llhttp_execute(parser, region, bytes.length)
      if (error !== OK || isComplete) break
    }
    const hasFailed = error !== OK && !isComplete
    const wasComplete = isComplete
    if (!hasFailed && !isComplete) (llhttp as LlhttpWithEnd).llhttp_finish(parser)
    const reading = {
      status,
      headers,
      body,
      isComplete: wasComplete,
      isCompleteAtClose: isComplete,
      isPersistent,
      error: hasFailed ? error : OK,
    }
    llhttp.llhttp_free(parser)
    return reading
  }
}
