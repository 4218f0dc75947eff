import type { IncomingHttpHeaders } from 'node:http'
import {
  type Client,
  type ClientOptions,
  type ClientRequest,
  createClient,
} from '../../src/http1/client/client.ts'
import { createDeadlines } from '../../src/http1/client/deadlines.ts'

export const openClient = (options: Partial<ClientOptions> = {}): Client =>
  createClient({
    resolver: {},
    deadlines: createDeadlines(),
    maxConnections: 100,
    keepAliveMs: () => 60_000,
    ...options,
  })

/** A response, as far as it came. */
export type ClientResult = {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly body: string
  readonly sent: number
  readonly error: (Error & { readonly code?: string }) | undefined
}

type Started = { readonly result: Promise<ClientResult> } & ReturnType<Client['exchange']>

/** Starts an exchange. `onData` gets the bytes that are valid during the call only. */
export function start(
  client: Client,
  request: Partial<ClientRequest> & Pick<ClientRequest, 'origin'>,
  onData: (bytes: Buffer) => void = () => {},
): Started {
  const { promise, resolve } = Promise.withResolvers<ClientResult>()
  let status = 0
  let headers: IncomingHttpHeaders = {}
  let sentCount = 0
  const pieces: Buffer[] = []
  const end = (error?: Error) =>
    resolve({ status, headers, body: Buffer.concat(pieces).toString('latin1'), sent: sentCount, error })
  const exchange = client.exchange(
    {
      method: 'GET',
      path: '/',
      headers: {},
      connectMs: 10_000,
      idleMs: 60_000,
      isRepeatable: false,
      ...request,
    },
    {
      sent() {
        sentCount += 1
      },
      head(code, fields) {
        status = code
        headers = { ...fields }
      },
      data(bytes) {
        pieces.push(Buffer.from(bytes))
        onData(bytes)
      },
      end,
      fail: end,
    },
  )
  return Object.assign(exchange, { result: promise })
}

export const fetchRaw = (client: Client, request: Partial<ClientRequest> & Pick<ClientRequest, 'origin'>) =>
  start(client, request).result
