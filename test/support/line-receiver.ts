import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'

// biome-ignore lint/suspicious/noExplicitAny: tests check lines field by field
type Line = any

/** An HTTP endpoint that receives JSON lines. */
export async function startLineReceiver() {
  const posts: {
    readonly path: string
    readonly headers: IncomingHttpHeaders
    readonly lines: readonly Line[]
  }[] = []
  let status = 200
  let requests = 0
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk)
    requests += 1
    if (status === 200) {
      const text = Buffer.concat(chunks).toString()
      const lines = text.split('\n').slice(0, -1)
      posts.push({
        path: request.url ?? '',
        headers: request.headers,
        lines: lines.map(line => JSON.parse(line)),
      })
    }
    response.writeHead(status).end()
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    posts,
    requests: () => requests,
    lines: (path: string) => posts.filter(post => post.path === path).flatMap(({ lines }) => lines),
    answer(next: number): void {
      status = next
    },
    async close(): Promise<void> {
      server.close()
      server.closeAllConnections()
    },
  }
}

export type LineReceiver = Awaited<ReturnType<typeof startLineReceiver>>
