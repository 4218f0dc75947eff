import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { freePort } from '../test/support/free-port.ts'
import { ANSWER } from './answers.ts'
import type { Authority } from './authority.ts'
import { findProgram, start, untilConnected } from './process.ts'

export const hasNginx = (): boolean => findProgram('nginx') !== undefined

async function startNginx(folder: string, { servers, port }: { servers: string; port: number }) {
  mkdirSync(folder, { recursive: true })
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
    .map(name => `${name}_temp_path ${folder}/${name};`)
    .join(' ')
  writeFileSync(
    join(folder, 'nginx.conf'),
    `daemon off; worker_processes 1; pid ${folder}/nginx.pid; error_log ${folder}/error.log;
     events { worker_connections 4096; }
     http { access_log off; keepalive_requests 1000000; ${temporary} ${servers} }`,
  )
  const running = start(findProgram('nginx') ?? 'nginx', ['-c', join(folder, 'nginx.conf'), '-p', folder])
  await untilConnected(port)
  return running
}

/** A provider that answers every request with the same bytes, as fast as possible; with TLS if it has a certificate. */
export async function startStaticAnswer(folder: string, authority?: Authority) {
  const port = await freePort()
  const tls = authority ? `ssl_certificate ${authority.cert}; ssl_certificate_key ${authority.key};` : ''
  const servers = `server { listen 127.0.0.1:${port}${authority ? ' ssl' : ''}; client_max_body_size 0; ${tls}
    location / { default_type application/json; return 200 '${ANSWER}'; } }`
  const protocol = authority ? 'https' : 'http'
  return { ...(await startNginx(folder, { servers, port })), url: `${protocol}://127.0.0.1:${port}` }
}

/** nginx as a plain proxy: the lower bound. One port for whole responses, one for streams. */
export async function startPlainNginx(folder: string, { whole, stream }: { whole: string; stream: string }) {
  const [wholePort, streamPort] = [await freePort(), await freePort()]
  const upstream = (name: string, url: string) =>
    `upstream ${name} { server ${new URL(url).host}; keepalive 512; keepalive_requests 1000000; }`
  const protocol = whole.startsWith('https:') ? 'https' : 'http'
  const server = (name: string, port: number, more: string) =>
    `server { listen 127.0.0.1:${port}; client_max_body_size 0; client_body_buffer_size 2m; location / { proxy_pass ${protocol}://${name}; proxy_http_version 1.1;
      proxy_set_header Connection ""; ${more} } }`
  const servers = [
    upstream('whole', whole),
    upstream('streamed', stream),
    server('whole', wholePort, ''),
    // With buffering, nginx may hold events back.
    server('streamed', streamPort, 'proxy_buffering off;'),
  ].join('\n')
  return {
    ...(await startNginx(folder, { servers, port: wholePort })),
    wholeUrl: `http://127.0.0.1:${wholePort}`,
    streamUrl: `http://127.0.0.1:${streamPort}`,
  }
}
