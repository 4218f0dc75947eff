import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'

export type Recorded = { readonly headers: IncomingHttpHeaders; readonly body: Record<string, unknown> }

/** `stream`: the text of server-sent events, in place of a body. */
type Answer = {
  readonly status?: number
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: unknown
  readonly stream?: string
}

const ANSWER = {
  id: 'chatcmpl-1',
  object: 'chat.completion',
  choices: [{ index: 0, message: { role: 'assistant', content: 'Good.' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 5, completion_tokens: 2, total_tokens: 7 },
}

/** A provider that records its requests and responds as a test sets it. */
export async function startRecorder() {
  const requests: Recorded[] = []
  let answer: Answer = {}
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk)
    requests.push({ headers: request.headers, body: JSON.parse(Buffer.concat(chunks).toString()) })
    const { status = 200, headers, body = ANSWER, stream } = answer
    const type = stream === undefined ? 'application/json' : 'text/event-stream'
    response.writeHead(status, { ...headers, 'content-type': type })
    response.end(stream ?? JSON.stringify(body))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    seen: requests,
    /** Sets the response from now on; omit it for a success. */
    answers(next: Answer = {}): void {
      answer = next
    },
    last(): Recorded {
      const lastRequest = requests.at(-1)
      if (!lastRequest) throw new Error('the provider was sent nothing')
      return lastRequest
    },
    async close(): Promise<void> {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}
