import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { TEST_CERTIFICATE, TEST_KEY } from './certificate.ts'
import { freePort } from './free-port.ts'
import { newDirectory } from './process.ts'
import { installedProgram } from './programs.ts'
import { until } from './wait.ts'

const example = (name: string) =>
  readFileSync(fileURLToPath(new URL(`../../packaging/proxy/${name}`, import.meta.url)), 'utf8')

/** Replaces a text that the example must contain. */
function replaced(text: string, changes: Readonly<Record<string, string>>): string {
  return Object.entries(changes).reduce((result, [from, to]) => {
    assert.ok(result.includes(from), `the example has no "${from}"`)
    return result.replaceAll(from, to)
  }, text)
}

type Place = { readonly port: number; readonly upstream: number; readonly folder: string }
type Proxy = { config(place: Place): string; args(folder: string): readonly string[] }

const PROXIES: Readonly<Record<ExampleProxyName, Proxy>> = {
  nginx: {
    config: ({
      port,
      upstream,
      folder,
    }) => `daemon off; master_process off; pid ${folder}/pid; error_log stderr crit;
events { worker_connections 256; }
http { access_log off;
${['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(name => `${name}_temp_path ${folder}/${name};`).join(' ')}
${replaced(example('nginx.conf'), {
  '127.0.0.1:3000': `127.0.0.1:${upstream}`,
  'listen 443': `listen 127.0.0.1:${port}`,
  '/etc/ssl/gateway.crt': `${folder}/certificate.pem`,
  '/etc/ssl/gateway.key': `${folder}/key.pem`,
})} }`,
    args: folder => ['-c', join(folder, 'config'), '-p', folder, '-e', 'stderr'],
  },
  haproxy: {
    config: ({ port, upstream, folder }) =>
      replaced(example('haproxy.cfg'), {
        '127.0.0.1:3000': `127.0.0.1:${upstream}`,
        'bind :443': `bind 127.0.0.1:${port}`,
        '/etc/haproxy/gateway.pem': `${folder}/both.pem`,
      }),
    args: folder => ['-f', join(folder, 'config'), '-db'],
  },
  caddy: {
    config: ({
      port,
      upstream,
      folder,
    }) => `{\n\tadmin off\n\tauto_https off\n\tlog {\n\t\tlevel error\n\t}\n}
${replaced(example('Caddyfile'), {
  '127.0.0.1:3000': `127.0.0.1:${upstream}`,
  'gateway.example.com {': `:${port} {\n\tbind 127.0.0.1\n\ttls ${folder}/certificate.pem ${folder}/key.pem`,
})}`,
    args: folder => ['run', '--adapter', 'caddyfile', '--config', join(folder, 'config')],
  },
}

export const EXAMPLE_PROXIES = ['nginx', 'haproxy', 'caddy'] as const
type ExampleProxyName = (typeof EXAMPLE_PROXIES)[number]

/** Starts a proxy in front of a gateway, configured as in packaging/proxy, with the certificate of the tests. */
export async function startExampleProxy(name: ExampleProxyName, upstream: number) {
  const proxy = PROXIES[name]
  const folder = newDirectory()
  const port = await freePort()
  writeFileSync(join(folder, 'certificate.pem'), TEST_CERTIFICATE)
  writeFileSync(join(folder, 'key.pem'), TEST_KEY)
  writeFileSync(join(folder, 'both.pem'), `${TEST_CERTIFICATE}${TEST_KEY}`)
  writeFileSync(join(folder, 'config'), proxy.config({ port, upstream, folder }))
  const child = spawn(installedProgram(name), proxy.args(folder), { stdio: ['ignore', 'ignore', 'inherit'] })
  await until(`${name} to listen`, async () => {
    assert.equal(child.exitCode, null, `${name} exited`)
    return (await isListening(port)) ? true : undefined
  })
  return {
    port,
    async close(): Promise<void> {
      child.kill()
      await once(child, 'exit')
    },
  }
}

function isListening(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1')
  return new Promise(resolve => {
    const end = (outcome: boolean) => {
      socket.destroy()
      resolve(outcome)
    }
    socket.once('connect', () => end(true)).once('error', () => end(false))
  })
}
