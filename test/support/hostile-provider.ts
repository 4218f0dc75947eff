import { createServer, type IncomingHttpHeaders, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'

type SeenRequest = {
  readonly method: string
  readonly path: string
  readonly headers: IncomingHttpHeaders
}

/**
 * A server on the loopback address that a test scripts: a provider, or a service that only this machine may
 * reach.
 */
export async function startScriptedServer(listener: RequestListener) {
  const requests: SeenRequest[] = []
  const server = createServer((request, response) => {
    const { method = '', url = '/', headers } = request
    requests.push({ method, path: url, headers })
    request.resume()
    request.once('end', () => listener(request, response))
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    port,
    seen: requests,
    async close(): Promise<void> {
      server.closeAllConnections()
      await new Promise(resolve => server.close(resolve))
    },
  }
}

export type ScriptedServer = Awaited<ReturnType<typeof startScriptedServer>>

/** A video provider (Replicate's format) whose jobs complete immediately, with a video at `filmUrl()`. */
export const startFilmProvider = (filmUrl: () => string, other: RequestListener) =>
  startScriptedServer((request, response) => {
    const { url = '/' } = request
    const sendJson = (status: number, body: unknown) => {
      response.writeHead(status, { 'content-type': 'application/json' })
      response.end(JSON.stringify(body))
    }
    if (url.endsWith('/predictions')) sendJson(201, { id: 'p1', status: 'starting' })
    else if (url === '/v1/predictions/p1')
      sendJson(200, { id: 'p1', status: 'succeeded', output: [filmUrl()] })
    else other(request, response)
  })
