import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import type { HttpServerName } from '../support/gateway.ts'
import { echo, openClient, post, startHttp } from '../support/http1.ts'
import { freePort } from '../support/postgres.ts'
import { until } from '../support/process.ts'
import { SMUGGLING } from '../support/smuggling.ts'

type Ports = { readonly port: number; readonly upstream: number; readonly folder: string }
type Proxy = {
  readonly program: string
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

/** Programs of the system administrator may not be in the path of an ordinary user. */
const env = { ...process.env, PATH: `${process.env.PATH}:/usr/sbin:/usr/local/sbin` }
/** An attack may keep a proxy waiting; its client then gives up. */
const PATIENCE_MS = 200
const AT_ONCE = 8

/** Starts a proxy in front of a server. */
async function startProxy({ program, config, args }: Proxy, upstream: number) {
  const folder = mkdtempSync(join(tmpdir(), `sluice-${program}-`))
  const port = await freePort()
  const file = join(folder, 'config')
  writeFileSync(file, config({ port, upstream, folder }))
  const child = spawn(program, args(file, folder), { env, stdio: ['ignore', 'ignore', 'inherit'] })
  await until(`${program} to answer`, async () => {
    const response = await fetch(`http://127.0.0.1:${port}/ready`).catch(() => undefined)
    return response?.ok ? true : undefined
  })
  return {
    port,
    close(): void {
      child.kill()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

/** Sends bytes to the proxy and waits until it closes the connection, or does nothing for a while. */
async function attack(port: number, bytes: string): Promise<void> {
  const { socket, closed } = await openClient(port)
  socket.write(Buffer.from(bytes, 'latin1'))
  socket.setTimeout(PATIENCE_MS, () => socket.destroy())
  await closed
}

/** The answer to an ordinary request of another client. */
async function victim(port: number, id: string): Promise<string> {
  const { socket, text, closed } = await openClient(port)
  socket.write(post(id, { path: `/v1/${id}`, headers: 'Connection: close\r\n' }))
  await closed
  return text()
}

/** Attacks a server through a proxy, with other clients in between. Returns the URLs that the server has understood. */
async function attackAll(proxy: Proxy, http: HttpServerName) {
  const urls = new Set<string>()
  const server = await startHttp(
    (request, response) => {
      urls.add(request.url ?? '')
      return echo(request, response)
    },
    { http },
  )
  const { port, close } = await startProxy(proxy, server.port)
  try {
    const attacks = SMUGGLING.entries()
    const attackNext = async () => {
      for (const [i, bytes] of attacks) {
        const attacking = attack(port, bytes)
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
    return { urls: [...urls].sort(), byNode: server.byNode() }
  } finally {
    close()
    await server.close()
  }
}

for (const [name, proxy] of Object.entries(PROXIES)) {
  const isInstalled = spawnSync(proxy.program, ['-v'], { env }).status === 0
  const skip = isInstalled ? false : `${name} is not installed (Debian: apt-get install ${name})`

  describe(`${SMUGGLING.length} smuggling attacks through ${name}`, { skip }, () => {
    it('change no answer to another client, and reach the same requests as with node:http', async () => {
      const [own, nodes] = await Promise.all([attackAll(proxy, 'http1'), attackAll(proxy, 'node')])
      assert.deepEqual(own.urls, nodes.urls)
      assert.ok(own.byNode < nodes.byNode, 'all requests were handed over')
    })
  })
}
