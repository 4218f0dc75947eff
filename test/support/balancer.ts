import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { Agent, createServer, request as send } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePort } from './free-port.ts'
import { installedProgram } from './programs.ts'
import { until } from './wait.ts'

const CHECK_MS = 100

export type Balancer = {
  readonly url: string
  /** Whether it sends requests to this node now. */
  isUp(port: number): Promise<boolean>
  close(): Promise<void>
}

/**
 * A proxy in front of several nodes. It reuses connections, sends requests in turn to the nodes whose /readyz is 200, and
 * retries nothing: a request that a node does not answer fails.
 */
export async function startBalancer(ports: readonly number[]): Promise<Balancer> {
  const agent = new Agent({ keepAlive: true })
  const up = new Set<number>()
  let turn = 0

  async function check(port: number): Promise<void> {
    const response = await fetch(`http://127.0.0.1:${port}/readyz`, {
      headers: { connection: 'close' },
    }).catch(() => undefined)
    if (response?.ok) up.add(port)
    else up.delete(port)
  }
  const checks = setInterval(() => {
    for (const port of ports) void check(port)
  }, CHECK_MS)

  const server = createServer((request, response) => {
    const ready = ports.filter(port => up.has(port))
    const port = ready[turn++ % ready.length]
    const fail = (reason: string) => {
      if (response.headersSent) response.destroy()
      else response.writeHead(502).end(reason)
    }
    if (port === undefined) return fail('no node is ready')
    const { method, url, headers } = request
    const { connection: _hop, ...forwarded } = headers
    const upstream = send(
      { host: '127.0.0.1', port, method, path: url, headers: forwarded, agent },
      answer => {
        const { connection: _answerHop, 'keep-alive': _time, ...responseHeaders } = answer.headers
        response.writeHead(answer.statusCode ?? 502, responseHeaders)
        answer.pipe(response)
        answer.on('aborted', () => response.destroy())
      },
    )
    upstream.on('error', error => fail(`node ${port}: ${error.message}`))
    request.pipe(upstream)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    isUp: async port => up.has(port),
    async close(): Promise<void> {
      clearInterval(checks)
      server.closeAllConnections()
      await new Promise(resolve => server.close(resolve))
      agent.destroy()
    },
  }
}

/**
 * HAProxy as in docs/operating/proxy.md, with shorter intervals. The timeout of a check is its interval by default: on a busy
 * machine all nodes would seem to be down.
 */
export async function startHaproxy(ports: readonly number[]): Promise<Balancer> {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-haproxy-'))
  const [port, statsPort] = [await freePort(), await freePort()]
  const file = join(folder, 'config')
  writeFileSync(
    file,
    `defaults
  mode http
  retries 0
  timeout client 60s
  timeout connect 10s
  timeout server 60s
  timeout check 10s
frontend front
  bind 127.0.0.1:${port}
  default_backend nodes
frontend stats
  bind 127.0.0.1:${statsPort}
  stats enable
  stats uri /stats
backend nodes
  balance roundrobin
  http-reuse always
  option httpchk GET /readyz
  http-check expect status 200
  default-server check inter ${CHECK_MS}ms fall 1 rise 1
${ports.map(each => `  server node-${each} 127.0.0.1:${each}`).join('\n')}
`,
  )
  const child = spawn(installedProgram('haproxy'), ['-f', file, '-db'], {
    stdio: ['ignore', 'ignore', 'ignore'],
  })
  /** The status of a server as HAProxy reports it. */
  async function isUp(node: number): Promise<boolean> {
    const text = await (await fetch(`http://127.0.0.1:${statsPort}/stats;csv`)).text()
    return text.split('\n').some(line => line.startsWith(`nodes,node-${node},`) && line.includes(',UP,'))
  }
  await until('HAProxy to answer', () =>
    isUp(0)
      .then(() => true)
      .catch(() => undefined),
  )
  return {
    url: `http://127.0.0.1:${port}`,
    isUp,
    async close(): Promise<void> {
      child.kill()
      await once(child, 'exit')
      rmSync(folder, { recursive: true, force: true })
    },
  }
}
