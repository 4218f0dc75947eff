import { createServer, type IncomingHttpHeaders, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'

// biome-ignore lint/suspicious/noExplicitAny: recordings are whatever the vendors send
export type Json = any
export type Seen = {
  readonly method: string
  readonly path: string
  readonly headers: IncomingHttpHeaders
  readonly body: Json
  /** The body as it was received. */
  readonly text: string
}

/** Where a vendor's recorded shapes expect a call, and its response. */
export type Line = {
  readonly method: string
  readonly path: string
  answer(seen: Seen): { status?: number; type?: string; body: Json }
}

/** Simulates a vendor: responds as its recording says, and records the requests. */
export async function startReplay() {
  let lines: readonly Line[] = []
  const requests: Seen[] = []
  const server: Server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', chunk => chunks.push(chunk))
    request.on('end', () => {
      const text = Buffer.concat(chunks).toString('utf8')
      const { method = '', url = '/', headers } = request
      if (url.startsWith('/film')) {
        response.writeHead(200, { 'content-type': 'video/mp4' })
        return response.end('a film')
      }
      const isJson = headers['content-type']?.includes('json') === true
      const recordedRequest = { method, path: url, headers, body: isJson ? JSON.parse(text) : text, text }
      requests.push(recordedRequest)
      const line = lines.find(each => each.method === method && each.path === url)
      const answer = line?.answer(recordedRequest) ?? { status: 404, body: { error: 'not found' } }
      const { status = 200, type = 'application/json', body } = answer
      const origin = `http://${headers.host}`
      response.writeHead(status, { 'content-type': type })
      response.end(JSON.stringify(body).replaceAll(/https:\/\/cdn\.example\/[\w.]+/g, `${origin}/film.mp4`))
    })
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', () => resolve()))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    seen: requests,
    play(next: readonly Line[]): void {
      lines = next
      requests.length = 0
    },
    close: () => server.close(),
  }
}

export type Replay = Awaited<ReturnType<typeof startReplay>>
