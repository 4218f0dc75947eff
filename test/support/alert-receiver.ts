import { createHmac } from 'node:crypto'
import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'

/** A request that the receiver got. */
export type ReceivedAlert = {
  readonly path: string
  readonly headers: IncomingHttpHeaders
  readonly text: string
  // biome-ignore lint/suspicious/noExplicitAny: tests check messages field by field
  readonly body: any
}

/** A receiver of webhooks on a free port. It answers 200 until told otherwise. */
export async function startReceiver() {
  const received: ReceivedAlert[] = []
  let answer: { status: number; body: string; headers: Record<string, string> } = {
    status: 200,
    body: '{"ok":true,"code":0,"errcode":0}',
    headers: {},
  }
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', chunk => chunks.push(chunk))
    request.on('end', () => {
      const text = Buffer.concat(chunks).toString('utf8')
      received.push({
        path: request.url ?? '',
        headers: request.headers,
        text,
        body: JSON.parse(text || 'null'),
      })
      response.writeHead(answer.status, answer.headers).end(answer.body)
    })
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    received,
    answer(status: number, body = '', headers: Record<string, string> = {}): void {
      answer = { status, body, headers }
    },
    async close(): Promise<void> {
      server.closeAllConnections()
      await new Promise(resolve => server.close(resolve))
    },
  }
}

export type Receiver = Awaited<ReturnType<typeof startReceiver>>

/** Checks a signature as docs/operating/alerts.md tells receivers to do. */
export function isSigned({ headers, text }: ReceivedAlert, secret: string): boolean {
  const [, time, signature] = /^t=(\d+),v1=([0-9a-f]{64})$/.exec(String(headers['x-sluice-signature'])) ?? []
  return signature === createHmac('sha256', secret).update(`${time}.${text}`).digest('hex')
}
