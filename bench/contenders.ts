import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { fileURLToPath } from 'node:url'
import { MODEL, STREAM_MODEL } from './answers.ts'
import { hasNginx, startPlainNginx } from './nginx.ts'
import type { Options } from './options.ts'
import { startPortkey } from './portkey.ts'
import { startReporting } from './process.ts'
import { startSluice } from './sluice.ts'

export type Target = { readonly url: string; readonly headers: Readonly<Record<string, string>> }

/** A program that is measured. */
export type Contender = {
  readonly name: string
  /** The root of the measured process tree. */
  readonly pid: number
  readonly whole: Target
  readonly stream: Target
  stop(): Promise<void>
}

/** The addresses of the providers, and the certificate of an authority that the gateways must trust. */
export type Upstreams = { readonly whole: string; readonly stream: string; readonly ca?: string | undefined }

export const CHAT = '/v1/chat/completions'
export const KEY = { authorization: 'Bearer k' }
/** The name of the row with default settings, after which the others of Sluice are compared. */
export const DEFAULT_ROW = 'Sluice'

const trusting = (ca: string | undefined) => (ca === undefined ? {} : { NODE_EXTRA_CA_CERTS: ca })

async function nginx(upstreams: Upstreams, folder: string): Promise<Contender> {
  const { pid, stop, wholeUrl, streamUrl } = await startPlainNginx(folder, upstreams)
  return {
    name: 'nginx, plain proxy',
    pid,
    stop,
    whole: { url: `${wholeUrl}${CHAT}`, headers: KEY },
    stream: { url: `${streamUrl}${CHAT}`, headers: KEY },
  }
}

async function bare({ whole, stream, ca }: Upstreams): Promise<Contender> {
  const program = fileURLToPath(new URL('plain-proxy.ts', import.meta.url))
  const env = { ...process.env, ...trusting(ca) }
  const { pid, stop, report } = await startReporting<string>([program, whole, stream], { env })
  const target = { url: `${report}${CHAT}`, headers: KEY }
  return { name: 'bare node:http + undici', pid, stop, whole: target, stream: target }
}

/** What the HTTP of Sluice takes, alone or with its ledger, and nothing else that a gateway does. */
async function least(name: string, { whole, stream }: Upstreams, ...flags: string[]): Promise<Contender> {
  const program = fileURLToPath(new URL('least-gateway.ts', import.meta.url))
  const { pid, stop, report } = await startReporting<string>([program, whole, stream, ...flags])
  const target = { url: `${report}${CHAT}`, headers: KEY }
  return { name, pid, stop, whole: target, stream: target }
}

async function portkey({ whole, stream }: Upstreams): Promise<Contender> {
  const { pid, stop, url, headersFor } = await startPortkey()
  return {
    name: 'Portkey 1.15.2',
    pid,
    stop,
    whole: { url: `${url}${CHAT}`, headers: headersFor(whole) },
    stream: { url: `${url}${CHAT}`, headers: headersFor(stream) },
  }
}

type SluiceSetup = {
  readonly engine: Options['engine']
  readonly name: string
  readonly env?: Readonly<Record<string, string>>
  /** Fields of the token. */
  readonly token?: Readonly<Record<string, unknown>>
}

async function sluice(
  { whole, stream, ca }: Upstreams,
  { engine, name, env = {}, token }: SluiceSetup,
): Promise<Contender> {
  const settings = { SLUICE_LOG: 'info', ...trusting(ca), ...env }
  const { pid, stop, chatUrl, headers, addChannel } = await startSluice({ engine, env: settings, token })
  await addChannel(whole, [MODEL])
  await addChannel(stream, [STREAM_MODEL])
  const target = { url: chatUrl, headers }
  return { name, pid, stop, whole: target, stream: target }
}

/** Sluice that also sends traces and metrics by OTLP. This process receives and discards them. */
async function tracedSluice(upstreams: Upstreams): Promise<Contender> {
  const receiver = createServer((request, response) => {
    request.resume().on('end', () => response.end())
  }).listen(0, '127.0.0.1')
  await once(receiver, 'listening')
  const { port } = receiver.address() as AddressInfo
  const env = { OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${port}` }
  const contender = await sluice(upstreams, { engine: 'sqlite', name: 'Sluice, traced', env })
  return {
    ...contender,
    async stop() {
      await contender.stop()
      receiver.close()
      receiver.closeAllConnections()
    },
  }
}

async function orNone(name: string, starting: Promise<Contender>): Promise<Contender[]> {
  try {
    return [await starting]
  } catch (error) {
    console.log(`${name} is left out: ${error instanceof Error ? error.message : error}.`)
    return []
  }
}

/** Starts what is measured, in the order of the table. Without nginx there is no lower bound. */
export async function startContenders(
  upstreams: Upstreams,
  { engine, peers, variants, limits }: Options,
  folder: string,
): Promise<Contender[]> {
  const contenders: Contender[] = []
  if (hasNginx()) contenders.push(await nginx(upstreams, folder))
  else
    console.log('nginx is not installed (Debian: nginx-light), so there is no lower bound to compare with.')
  contenders.push(await bare(upstreams))
  if (limits) {
    contenders.push(await least('HTTP of Sluice', upstreams))
    contenders.push(await least('with its ledger', upstreams, '--ledger'))
  }
  if (peers) contenders.push(...(await orNone('Portkey', portkey(upstreams))))
  contenders.push(await sluice(upstreams, { engine, name: DEFAULT_ROW }))
  // Only one gateway can use the bench's PostgreSQL, whose CPU time is divided by its requests.
  if (!variants || engine === 'postgres') return contenders
  const quiet = { SLUICE_LOG: 'error' }
  contenders.push(await sluice(upstreams, { engine, name: 'Sluice, no log line', env: quiet }))
  const shared = { SLUICE_WORKERS: '2' }
  contenders.push(await sluice(upstreams, { engine, name: 'Sluice, 2 workers', env: shared }))
  contenders.push(await tracedSluice(upstreams))
  const token = { log_bodies: 'all' }
  contenders.push(await sluice(upstreams, { engine, name: 'Sluice, bodies kept', token }))
  return contenders
}
