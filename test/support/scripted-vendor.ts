import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'

export type Sent = {
  readonly path: string
  readonly headers: IncomingHttpHeaders
  readonly body: string
}

export type ScriptedAnswer = {
  readonly status?: number
  readonly type?: string
  /** A list is written piece by piece. */
  readonly body: string | readonly string[]
}

export const jsonAnswer = (value: unknown): ScriptedAnswer => ({ body: JSON.stringify(value) })

/** A stream of server-sent events, `[DONE]` last. */
export const eventsAnswer = (...events: readonly unknown[]): ScriptedAnswer => ({
  type: 'text/event-stream',
  body: [...events.map(event => `data: ${JSON.stringify(event)}\n\n`), 'data: [DONE]\n\n'],
})

/** A provider that responds as a test scripts it, and records its requests. */
export async function startVendor(respond: (sent: Sent) => ScriptedAnswer) {
  const requests: Sent[] = []
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk)
    const recordedRequest = {
      path: request.url ?? '/',
      headers: request.headers,
      body: Buffer.concat(chunks).toString('latin1'),
    }
    requests.push(recordedRequest)
    const { status = 200, type = 'application/json', body } = respond(recordedRequest)
    response.writeHead(status, { 'content-type': type })
    for (const piece of [body].flat()) response.write(piece)
    response.end()
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    seen: requests,
    async close(): Promise<void> {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}

export type Vendor = Awaited<ReturnType<typeof startVendor>>
