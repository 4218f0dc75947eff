import { createServer, type Server } from 'node:http'
import { listen } from './server.ts'

const PATH = /^\/metrics\/?(\?|$)/
const METHODS = new Set(['GET', 'HEAD'])

type MetricsServer = {
  readonly port: number
  readonly host: string
  readonly contentType: string
  expose(): Promise<string>
  onFailure(error: Error): void
}

/** Serves `/metrics` on a port of its own, without a credential. */
export async function serveMetrics({
  port,
  host,
  contentType,
  expose,
  onFailure,
}: MetricsServer): Promise<Server> {
  const server = createServer({ headersTimeout: 10_000, requestTimeout: 10_000 }, (request, response) => {
    if (!METHODS.has(request.method ?? '') || !PATH.test(request.url ?? '')) {
      response.writeHead(404).end()
      return
    }
    expose().then(
      text => response.writeHead(200, { 'content-type': contentType }).end(text),
      error => {
        onFailure(error)
        response.writeHead(500).end()
      },
    )
  })
  await listen(server, port, host)
  return server
}
