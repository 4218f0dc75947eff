import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { retryingFetch } from '../../support/client.ts'
import { freePort } from '../../support/free-port.ts'
import { HTTP_SERVERS, type HttpServerName } from '../../support/gateway.ts'
import { echo, openClient, post, startHttp } from '../../support/http1.ts'
import { installedProgram, type ProgramName, skipWithout } from '../../support/programs.ts'
import { SMUGGLING } from '../../support/smuggling.ts'
import { until, WAIT_MS } from '../../support/wait.ts'

type Ports = { readonly port: number; readonly upstream: number; readonly folder: string }
type Proxy = {
  readonly program: ProgramName
  config(ports: Ports): string
  args(file: string, folder: string): readonly string[]
}

/** Both reuse connections to the server for the requests of all clients, which is what smuggling needs. */
const PROXIES: Readonly<Record<string, Proxy>> = {
  nginx: {
    program: 'nginx',
    config: ({
      port,
      upstream,
      folder,
    }) => `daemon off; master_process off; pid ${folder}/pid; error_log stderr crit;
      events { worker_connections 256; }
      http { access_log off;
        ${['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(name => `${name}_temp_path ${folder}/${name};`).join(' ')}
        upstream server { server 127.0.0.1:${upstream}; keepalive 1; }
        server { listen 127.0.0.1:${port}; underscores_in_headers on; ignore_invalid_headers off;
          location / { proxy_pass http://server; proxy_http_version 1.1; proxy_set_header Connection "";
            proxy_request_buffering off; } } }`,
    args: (file, folder) => ['-c', file, '-p', folder, '-e', 'stderr'],
  },
  haproxy: {
    program: 'haproxy',
    config: ({ port, upstream }) => `defaults
  mode http
  timeout client 10s
  timeout connect 10s
  timeout server 10s
frontend front
  bind 127.0.0.1:${port}
  option accept-invalid-http-request
  default_backend back
backend back
  http-reuse always
  server only 127.0.0.1:${upstream}
`,
    args: file => ['-f', file, '-db'],
  },
}

/** An attack may keep a proxy waiting; its client then gives up, in later rounds after a longer time. */
const CLIENT_TIMEOUTS_MS = [200, 1_000, 5_000, WAIT_MS]
const AT_ONCE = 8

/** Starts a proxy in front of a server. */
async function startProxy({ program, config, args }: Proxy, upstream: number) {
  const folder = mkdtempSync(join(tmpdir(), `sluice-${program}-`))
  const port = await freePort()
  const file = join(folder, 'config')
  writeFileSync(file, config({ port, upstream, folder }))
  const child = spawn(installedProgram(program), args(file, folder), {
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  await until(`${program} to answer`, async () => {
    const response = await retryingFetch(`http://127.0.0.1:${port}/ready`).catch(() => undefined)
    return response?.ok ? true : undefined
  })
  return {
    port,
    async close(): Promise<void> {
      child.kill()
      await once(child, 'exit')
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

/** Sends bytes to the proxy and waits until it closes the connection, or does nothing for a while. */
async function attack(port: number, bytes: string, timeoutMs: number): Promise<void> {
  const { socket, closed } = await openClient(port)
  socket.write(Buffer.from(bytes, 'latin1'))
  socket.setTimeout(timeoutMs, () => socket.destroy())
  await closed
}

/** The answer to an ordinary request of another client. */
async function victim(port: number, id: string): Promise<string> {
  const { socket, text, closed } = await openClient(port)
  socket.write(post(id, { path: `/v1/${id}`, headers: 'Connection: close\r\n' }))
  await closed
  return text()
}

/** A server behind a proxy. */
async function startAttacked(proxy: Proxy, http: HttpServerName) {
  /** The URLs that the server has understood. */
  const urls = new Set<string>()
  const server = await startHttp(
    (request, response) => {
      urls.add(request.url ?? '')
      return echo(request, response)
    },
    { http },
  )
  const { port, close } = await startProxy(proxy, server.port)

  /** Makes these attacks, with requests of other clients in between. */
  async function attackAll(numbers: readonly number[], timeoutMs: number): Promise<void> {
    const attacks = numbers.values()
    const attackNext = async () => {
      for (const i of attacks) {
        const bytes = SMUGGLING[i] ?? ''
        const attacking = attack(port, bytes, timeoutMs)
        for (const id of [`during-${i}`, `after-${i}`]) {
          const answer = await victim(port, id)
          assert.match(
            answer,
            new RegExp(`"url":"/v1/${id}".*"body":"${id}"\\}$`, 's'),
            JSON.stringify(bytes),
          )
          await attacking
        }
      }
    }
    await Promise.all(Array.from({ length: AT_ONCE }, attackNext))
  }

  return {
    urls,
    attackAll,
    byNode: server.byNode,
    async close(): Promise<void> {
      await close()
      await server.close()
    },
  }
}

for (const [name, proxy] of Object.entries(PROXIES)) {
  const skip = skipWithout(import.meta.filename, proxy.program)

  describe(`${SMUGGLING.length} smuggling attacks through ${name}`, { skip }, () => {
    it('change no answer to another client, and reach the same requests as with node:http', async test => {
      const servers = await Promise.all(HTTP_SERVERS.map(http => startAttacked(proxy, http)))
      test.after(() => Promise.all(servers.map(({ close }) => close())))
      const [own, nodes] = servers
      assert.ok(own && nodes)
      let open: readonly number[] = [...SMUGGLING.keys()]
      for (const timeoutMs of CLIENT_TIMEOUTS_MS) {
        await Promise.all(servers.map(({ attackAll }) => attackAll(open, timeoutMs)))
        const different = own.urls.symmetricDifference(nodes.urls)
        // On a busy machine a client may have left before the proxy had read all.
        open = [...different].map(url => Number(url.slice(-3)))
      }
      assert.deepEqual(open, [])
      assert.ok(own.byNode() < nodes.byNode(), 'all requests were handed over')
    })
  })
}
