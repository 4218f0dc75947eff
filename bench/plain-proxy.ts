import { createServer } from 'node:http'
import { pipeline } from 'node:stream'
import { Pool } from 'undici'

/**
 * The minimum work of a gateway in Node.js: reads the body, parses it for the model and `stream`, and forwards it. No token,
 * no ledger. It prints its address as JSON.
 */
const [wholeUrl = '', streamUrl = ''] = process.argv.slice(2)
const pools = [wholeUrl, streamUrl].map(
  url => new Pool(url, { connections: 512, pipelining: 1, allowH2: false }),
)
const OMITTED = new Set(['connection', 'keep-alive', 'transfer-encoding'])

const server = createServer((request, response) => {
  const chunks: Buffer[] = []
  request.on('data', chunk => chunks.push(chunk))
  request.on('end', async () => {
    try {
      const body = Buffer.concat(chunks)
      const { stream } = JSON.parse(body.toString()) as { stream?: boolean }
      const pool = pools[stream ? 1 : 0] as Pool
      const answer = await pool.request({
        path: request.url ?? '/',
        method: 'POST',
        headers: { 'content-type': 'application/json', authorization: 'Bearer k' },
        body,
      })
      const headers = Object.entries(answer.headers).filter(([name]) => !OMITTED.has(name))
      response.writeHead(answer.statusCode, Object.fromEntries(headers))
      pipeline(answer.body, response, error => {
        if (error) response.destroy()
      })
    } catch {
      // The load generator counts it as failed.
      if (!response.headersSent) response.writeHead(502)
      response.end()
    }
  })
})
server.keepAliveTimeout = 65_000
server.listen({ port: 0, host: '127.0.0.1', backlog: 2_048 }, () => {
  const address = server.address()
  console.log(JSON.stringify(`http://127.0.0.1:${typeof address === 'object' && address ? address.port : 0}`))
})
