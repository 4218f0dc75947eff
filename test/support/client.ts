import { setTimeout as delay } from 'node:timers/promises'
import { WAIT_MS } from './wait.ts'

const RETRY_PAUSE_MS = 200

/**
 * The refusals that a gateway on a busy machine may give before it starts anything (docs/reference/errors.md: When to retry), and how their
 * messages begin: errors of Anthropic and Gemini have no code of the gateway.
 */
const RETRYABLE = {
  overloaded: /^The gateway is (overloaded|out of )/,
  ledger_unavailable:
    /^(The ledger is unavailable|The database is unavailable|This node has lost its connection)/,
} as const satisfies Readonly<Record<string, RegExp>>

export type RetryableCode = keyof typeof RETRYABLE

export type RetryOptions = {
  /** The refusal that this test is about, which is not retried: for tests of overload, of outages and of leases. */
  readonly expectedRefusal?: RetryableCode | undefined
}

type ErrorBody = {
  /** The management envelope. */
  readonly code?: unknown
  readonly error?: { readonly code?: unknown; readonly message?: unknown } | null
}

const isRetryableCode = (code: unknown): code is RetryableCode =>
  typeof code === 'string' && Object.hasOwn(RETRYABLE, code)

/** The refusal in a response that a client may retry, in any error format of the gateway. */
export function retryableRefusal(status: number, text: string): RetryableCode | undefined {
  if (status !== 503 || !/^\[?\{/.test(text)) return undefined
  // A stream of Gemini that is an array has its error as an entry.
  const { code, error } = [JSON.parse(text)].flat()[0] as ErrorBody
  if (isRetryableCode(code)) return code
  if (isRetryableCode(error?.code)) return error.code
  const codes = Object.keys(RETRYABLE) as RetryableCode[]
  return codes.find(each => RETRYABLE[each].test(String(error?.message)))
}

/** Sends a request until it is not refused as above. If the wait is over, the refusal is the response. */
async function retried<Response>(
  send: () => Promise<Response>,
  refusalOf: (response: Response) => Promise<RetryableCode | undefined>,
  { expectedRefusal }: RetryOptions = {},
): Promise<Response> {
  const deadlineMs = Date.now() + WAIT_MS
  for (;;) {
    const response = await send()
    if (Date.now() > deadlineMs) return response
    const refusal = await refusalOf(response)
    if (refusal === undefined || refusal === expectedRefusal) return response
    await delay(RETRY_PAUSE_MS)
  }
}

/** Retries for a client that reads the whole response. */
export const withRetries = <Reply extends { readonly status: number; readonly text: string }>(
  send: () => Promise<Reply>,
  options?: RetryOptions,
): Promise<Reply> => retried(send, async ({ status, text }) => retryableRefusal(status, text), options)

/**
 * The client of tests: `fetch` that retries these refusals, as a client should. It has the parameters of `fetch`, so that SDKs
 * can use it. A body that is a stream is sent once.
 */
export function retryingFetch(
  input: string | URL | Request,
  init?: RequestInit,
  options?: RetryOptions,
): Promise<Response> {
  if (init?.body instanceof ReadableStream) return fetch(input, init)
  return retried(
    () => fetch(input instanceof Request ? input.clone() : input, init),
    // Other bodies may be streams, so only that of a possible refusal is read.
    async response =>
      response.status === 503 ? retryableRefusal(503, await response.clone().text()) : undefined,
    options,
  )
}
