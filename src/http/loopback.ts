import { createServer, type IncomingMessage, type RequestListener, request } from 'node:http'
import { duplexPair } from 'node:stream'

/** Of a longer answer the rest is read and discarded. */
const MAX_ANSWER_BYTES = 4 * 1_048_576
const TIMEOUT_MS = 300_000

type LoopbackCall = {
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: Buffer
  /** The address of the person for whom the call is made. */
  readonly address: string
}

export type LoopbackAnswer = {
  readonly status: number
  readonly headers: Readonly<Record<string, string | undefined>>
  readonly body: Buffer
  readonly isTruncated: boolean
  /** Until the end of the answer, and until its first byte. */
  readonly ms: number
  readonly firstMs: number
}

/** Sends a request to a listener of this process over a connection in memory. */
export async function callListener(listener: RequestListener, call: LoopbackCall): Promise<LoopbackAnswer> {
  const [clientEnd, serverEnd] = duplexPair()
  const server = createServer(listener)
  server.emit('connection', Object.assign(serverEnd, { remoteAddress: call.address }))
  const startedAt = performance.now()
  const outgoing = request({
    createConnection: () => clientEnd,
    method: 'POST',
    path: call.path,
    headers: { host: 'loopback', ...call.headers, 'content-length': String(call.body.length) },
    signal: AbortSignal.timeout(TIMEOUT_MS),
  })
  try {
    outgoing.end(call.body)
    const response = await new Promise<IncomingMessage>((resolve, reject) =>
      outgoing.once('response', resolve).once('error', reject),
    )
    const chunks: Buffer[] = []
    let keptBytes = 0
    let size = 0
    let firstMs: number | undefined
    for await (const chunk of response as AsyncIterable<Buffer>) {
      firstMs ??= performance.now() - startedAt
      size += chunk.length
      if (keptBytes >= MAX_ANSWER_BYTES) continue
      const piece = chunk.subarray(0, MAX_ANSWER_BYTES - keptBytes)
      keptBytes += piece.length
      chunks.push(piece)
    }
    const ms = performance.now() - startedAt
    return {
      status: response.statusCode ?? 0,
      headers: response.headers as Record<string, string | undefined>,
      body: Buffer.concat(chunks),
      isTruncated: size > keptBytes,
      ms: Math.round(ms),
      firstMs: Math.round(firstMs ?? ms),
    }
  } finally {
    clientEnd.destroy()
    serverEnd.destroy()
  }
}
