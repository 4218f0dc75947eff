import { memberOf } from '../../providers/member.ts'
import { parsedOrNothing } from '../../wire/json-bounds.ts'
import { createSseScanner, dataText } from '../../wire/sse.ts'
import type { BufferedResponse, StreamedResponse } from './exchange.ts'

/** The status of each vendor error name, for errors without a numeric status. */
const STATUS_OF: Readonly<Record<string, number>> = {
  invalid_request_error: 400,
  context_length_exceeded: 400,
  invalid_api_key: 401,
  authentication_error: 401,
  billing_error: 402,
  permission_error: 403,
  not_found_error: 404,
  request_too_large: 413,
  rate_limit_error: 429,
  rate_limit_exceeded: 429,
  insufficient_quota: 429,
  overloaded_error: 503,
}
const FAILED = 502

/**
 * Some providers begin a stream with status 200 and send only an error. The client has received nothing at that point, so
 * the gateway treats it as an error response.
 */
export function errorAtOnce({ flow, headers }: StreamedResponse): BufferedResponse | undefined {
  const beginning = flow.peek()
  if (!beginning.includes('error')) return undefined
  const scanner = createSseScanner()
  const first = [...scanner.push(beginning), ...scanner.end()].find(({ data }) => data.length > 0)
  if (first === undefined) return undefined
  const text = dataText(first)
  // Plain text, or an event that continues after the first bytes, is not JSON.
  const parsed = parsedOrNothing(text)
  const isError = first.event === 'error'
  const error = memberOf(parsed, 'error') || (isError ? (parsed ?? text) : undefined)
  if (!error) return undefined
  return {
    kind: 'buffered',
    status: statusOf(error),
    headers,
    body: Buffer.from(JSON.stringify({ error })),
  }
}

function statusOf(error: unknown): number {
  const values = [memberOf(error, 'code'), memberOf(error, 'status'), memberOf(error, 'type')]
  for (const word of values) {
    const number = Number(word)
    if (Number.isInteger(number) && number >= 400 && number < 600) return number
    if (typeof word === 'string' && Object.hasOwn(STATUS_OF, word)) return STATUS_OF[word] ?? FAILED
  }
  return FAILED
}
