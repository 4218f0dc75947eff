import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, STATUS_CODES } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createRequestIds } from '../src/http/request-id.ts'
import { createClient } from '../src/http1/client/client.ts'
import { createDeadlines } from '../src/http1/client/deadlines.ts'
import type { Http1Response } from '../src/http1/server/response.ts'
import { serveHttp1 } from '../src/http1/server/serve.ts'
import { createJournal } from '../src/ledger/journal.ts'
import { type Ledger, openLedger } from '../src/ledger/ledger.ts'
import { createBooks } from '../src/store/books/books.ts'
import { openLedgerStore } from './ledger-store.ts'

/**
 * The least that a gateway with this HTTP and this ledger can take: it parses the request for its model, forwards it, parses
 * the answer for its usage, and with `--ledger` holds and settles the cost, as the gateway does. One token, one channel, one
 * price; no limits, routing, retries, checks, log lines or metrics. Streams are forwarded as bytes, without a ledger. It prints
 * its address as JSON.
 */
const [wholeOrigin = '', streamOrigin = '', ledgerFlag] = process.argv.slice(2)

const STREAMED = '"stream":true'
const CHANNEL = 1
const OWNER = 1
const HOLD_NANOS = 9_000_000
const INPUT_NANOS = 150
const OUTPUT_NANOS = 600
const LIMITS = {
  headS: 10,
  requestS: 60,
  keepAliveS: 65,
  headBytes: 16_384,
  headers: 100,
  unreadBytes: 65_536,
  lingerMs: 1_000,
}

async function openBenchLedger(folder: string): Promise<Ledger> {
  const store = await openLedgerStore(folder, { users: OWNER, tokens: OWNER })
  const fail = (error: Error) => {
    throw error
  }
  const journal = createJournal({
    dir: folder,
    fullSync: false,
    nowMs: Date.now,
    onReserveReleased: fail,
    onSyncFailure: fail,
  })
  return openLedger({
    nodeId: 'bench',
    journal,
    books: createBooks(store.db, 'sqlite'),
    otherNodes: {
      isEmpty: async () => true,
      returnIdle: async () => ({ mustStillHold: async () => {} }),
      exclusively: (_userId, work) => work({ mustStillHold: () => {} }),
    },
    outageMs: 0,
    nowMs: Date.now,
    onFailure: fail,
    onHealed: () => {},
  })
}

const folder = mkdtempSync(join(tmpdir(), 'sluice-least-'))
process.once('exit', () => rmSync(folder, { recursive: true, force: true }))
const ledger = ledgerFlag === '--ledger' ? await openBenchLedger(folder) : undefined
const client = createClient({
  resolver: {},
  deadlines: createDeadlines(),
  maxConnections: 1_024,
  keepAliveMs: () => 4_000,
})
const newRequestId = createRequestIds()

type Usage = { readonly prompt_tokens: number; readonly completion_tokens: number }

const requestOf = (origin: string, body: Buffer, requestId: string) => ({
  origin,
  method: 'POST' as const,
  path: '/v1/chat/completions',
  headers: { 'content-type': 'application/json', authorization: 'Bearer k', 'x-request-id': requestId },
  body,
  connectMs: 5_000,
  idleMs: 60_000,
  isRepeatable: false,
})

const forward = (body: Buffer, requestId: string, isEndOfTurn: boolean) =>
  new Promise<Buffer>((resolve, reject) => {
    const pieces: Buffer[] = []
    client.exchange(
      { ...requestOf(wholeOrigin, body, requestId), isEndOfTurn },
      {
        sent() {},
        head() {},
        data: bytes => void pieces.push(Buffer.from(bytes)),
        end: () => resolve(Buffer.concat(pieces)),
        fail: reject,
      },
    )
  })

/** A response writes or copies bytes before `write` returns. */
function forwardStream(body: Buffer, response: Http1Response): void {
  const requestId = newRequestId(Date.now())
  client.exchange(requestOf(streamOrigin, body, requestId), {
    sent() {},
    head: status => void response.writeHead(status, { 'content-type': 'text/event-stream' }),
    data: bytes => void response.write(bytes),
    end: () => void response.end(),
    fail: () => void response.destroy(),
  })
}

async function serve(body: Buffer): Promise<{ readonly answer: Buffer; readonly requestId: string }> {
  const startedMs = Date.now()
  const requestId = newRequestId(startedMs)
  const { model } = JSON.parse(body.toString()) as { model: string }
  const names = { tokenName: 'bench', model, isStream: false, address: '127.0.0.1' }
  const hold = await ledger?.hold({
    rid: requestId,
    userId: OWNER,
    tokenId: OWNER,
    amount: HOLD_NANOS,
    ...names,
  })
  await hold?.attempt(CHANNEL, HOLD_NANOS)
  const answer = await forward(body, requestId, hold !== undefined)
  const { usage } = JSON.parse(answer.toString()) as { usage: Usage }
  const log = {
    ...names,
    promptTokens: usage.prompt_tokens,
    completionTokens: usage.completion_tokens,
    useTimeMs: Date.now() - startedMs,
    isError: false,
    content: '',
    upstreamRequestId: '',
    other: { source: 'provider', frt: 1, price: 'bench', priced_as: model },
  }
  const cost = usage.prompt_tokens * INPUT_NANOS + usage.completion_tokens * OUTPUT_NANOS
  await hold?.settle({ channelId: CHANNEL, cost, log })
  return { answer, requestId }
}

const server = createServer((_request, response) => response.writeHead(404).end())
serveHttp1(server, {
  limits: LIMITS,
  route: url => url,
  serve(request, response) {
    const body = request.complete ? request.read() : null
    if (body === null) throw new Error('the benchmark sends small requests only')
    if (body.includes(STREAMED)) forwardStream(body, response)
    else
      serve(body).then(({ answer, requestId }) => {
        response.writeHead(200, {
          'content-type': 'application/json',
          'content-length': String(answer.length),
          'x-request-id': requestId,
        })
        response.end(answer)
      })
  },
  reasonOf: status => STATUS_CODES[status] ?? '',
  nowMs: Date.now,
})
server.listen({ port: 0, host: '127.0.0.1', backlog: 2_048 }, () => {
  console.log(JSON.stringify(`http://127.0.0.1:${(server.address() as AddressInfo).port}`))
})
