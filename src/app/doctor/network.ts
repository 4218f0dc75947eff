import { connect, createServer } from 'node:net'
import ipaddr from 'ipaddr.js'
import { Agent, request } from 'undici'
import { socketPath } from '../../cli/control.ts'
import type { Finding } from '../../cli/finding.ts'
import { proxyLabel } from '../../domain/channel-network.ts'
import type { Network } from '../../http/network.ts'
import type { Config } from '../config.ts'
import { isPublicWithoutTls } from '../exposure.ts'
import { openNetwork } from '../network.ts'
import { clockFinding, type ProviderAddress, type StoreFacts } from './database.ts'

const TIMEOUT_MS = 5_000
/** More than this many providers would make the command slow. */
const MAX_ORIGINS = 50

type Probe = { readonly finding: Finding; readonly clockDifferenceS?: number }

/** Whether a provider responds at all. No key is sent, so every status is fine. */
async function probe({ origin, network: channel }: ProviderAddress, network: Network): Promise<Probe> {
  const check = 'provider'
  const { proxy } = network.report(origin, channel)
  const name = proxy === null ? origin : `${origin} through proxy ${proxy}`
  const agent = new Agent({ connect: network.connector({ timeoutMs: TIMEOUT_MS, channel }) })
  try {
    const { statusCode, headers, body } = await request(origin, {
      method: 'HEAD',
      dispatcher: agent,
      signal: AbortSignal.timeout(TIMEOUT_MS),
    })
    await body.dump()
    const dateMs = Date.parse(String(headers.date ?? ''))
    return {
      finding: { check, level: 'ok', message: `${name} responds (status ${statusCode})` },
      ...(Number.isFinite(dateMs) && { clockDifferenceS: (Date.now() - dateMs) / 1000 }),
    }
  } catch (error) {
    return {
      finding: {
        check,
        level: 'failure',
        message: `${name} cannot be reached: ${(error as Error).message || 'no response'}`,
      },
    }
  } finally {
    await agent.destroy()
  }
}

/** The median, because a single provider may have a wrong clock. */
function clockOf(probes: readonly Probe[]): readonly Finding[] {
  const differences = probes.flatMap(({ clockDifferenceS }) => clockDifferenceS ?? []).sort((a, b) => a - b)
  const median = differences[Math.floor(differences.length / 2)]
  return median === undefined ? [] : [clockFinding('the providers', median)]
}

/** Connects to every provider of an enabled channel, once. */
export async function examineProviders(
  network: Network,
  store: StoreFacts | undefined,
): Promise<readonly Finding[]> {
  if (store === undefined) return []
  if (store.providers.length === 0)
    return [{ check: 'provider', level: 'ok', message: 'there is no enabled channel yet' }]
  const probed = store.providers.slice(0, MAX_ORIGINS)
  const probes = await Promise.all(probed.map(provider => probe(provider, network)))
  return [...probes.map(({ finding }) => finding), ...clockOf(probes)]
}

/** Variables that other programs read. The gateway does not, because they may be meant for those only. */
const COMMON_VARIABLES = ['HTTPS_PROXY', 'https_proxy', 'HTTP_PROXY', 'http_proxy', 'ALL_PROXY', 'all_proxy']

const isReachable = (host: string, port: number) =>
  new Promise<string | undefined>(resolve => {
    const socket = connect({ host, port, timeout: TIMEOUT_MS })
    const end = (fault: string | undefined) => {
      socket.destroy()
      resolve(fault)
    }
    socket
      .once('connect', () => end(undefined))
      .once('timeout', () => end('timeout'))
      .once('error', error => end((error as Error).message))
  })

/** How the gateway connects to providers, with the network itself if it can be opened. */
export async function examineOutgoing(
  config: Config,
  env: Readonly<Record<string, string | undefined>>,
): Promise<{ readonly findings: readonly Finding[]; readonly network: Network }> {
  const check = 'outgoing'
  const { proxy, dnsServers, ipFamily, caCerts } = config
  const findings: Finding[] = []
  const unused = COMMON_VARIABLES.find(name => env[name])
  if (proxy === undefined && unused !== undefined)
    findings.push({ check, level: 'warning', message: `${unused} is not used; set SLUICE_PROXY` })
  if (proxy !== undefined) {
    const fault = await isReachable(proxy.hostname, proxy.port)
    findings.push(
      fault === undefined
        ? { check, level: 'ok', message: `the proxy ${proxyLabel(proxy)} accepts connections` }
        : { check, level: 'failure', message: `the proxy ${proxyLabel(proxy)} cannot be reached: ${fault}` },
    )
  }
  if (dnsServers.length > 0)
    findings.push({ check, level: 'ok', message: `names are resolved by ${dnsServers.join(', ')}` })
  if (ipFamily !== 'system') findings.push({ check, level: 'ok', message: `addresses: ${ipFamily}` })
  if (caCerts !== undefined)
    findings.push({ check, level: 'ok', message: `the certificates in ${caCerts.file} are trusted` })
  return { findings, network: openNetwork(config, () => {}) }
}

const isEverybody = (range: string) => range.includes('/') && ipaddr.parseCIDR(range)[1] === 0

/** Which peers may name the address of a client. */
export function examineProxies(config: Config): readonly Finding[] {
  const check = 'proxy headers'
  const { host, trustedProxies } = config
  if (trustedProxies.some(isEverybody))
    return [
      {
        check,
        level: 'failure',
        message:
          'SLUICE_TRUSTED_PROXIES contains every address: any client can forge its own with X-Forwarded-For',
      },
    ]
  if (isPublicWithoutTls(config))
    return [
      {
        check,
        level: 'warning',
        message: `HOST is ${host} and SLUICE_TRUSTED_PROXIES is empty: clients connect without TLS, and headers of a proxy are ignored`,
      },
    ]
  const message =
    trustedProxies.length === 0
      ? `X-Forwarded-For is ignored; clients connect to ${host} directly`
      : `X-Forwarded-For is used from ${trustedProxies.join(', ')}`
  return [{ check, level: 'ok', message }]
}

const isRunning = (dataDir: string) =>
  new Promise<boolean>(resolve => {
    const socket = connect(socketPath(dataDir))
    const end = (outcome: boolean) => {
      socket.destroy()
      resolve(outcome)
    }
    socket.once('connect', () => end(true)).once('error', () => end(false))
  })

/** Why the port cannot be used; undefined if it can. */
const portFault = (port: number, host: string) =>
  new Promise<string | undefined>(resolve => {
    const server = createServer()
    server.once('error', error => resolve((error as Error).message))
    server.listen(port, host, () => server.close(() => resolve(undefined)))
  })

/** The running gateway, or the port for the next one. */
export async function examineListening({ dataDir, host, port }: Config): Promise<readonly Finding[]> {
  const check = 'gateway'
  if (await isRunning(dataDir)) return [{ check, level: 'ok', message: `runs on ${dataDir}` }]
  const fault = await portFault(port, host)
  return [
    fault === undefined
      ? { check, level: 'ok', message: `does not run; ${host}:${port} is free` }
      : { check, level: 'failure', message: `does not run, and cannot listen on ${host}:${port}: ${fault}` },
  ]
}
