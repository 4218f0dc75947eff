import { readFileSync } from 'node:fs'
import { isIP } from 'node:net'
import { isAbsolute, join, resolve } from 'node:path'
import { IP_FAMILIES, type ProxyAddress, readProxyUrl } from '../domain/channel-network.ts'
import { HEADER_NAME, HEADER_VALUE, isFraming } from '../domain/header.ts'
import { isAddressOrRange } from '../http/address.ts'
import { readCertificates } from '../http/channel-network.ts'
import { isHostEntry } from '../http/host-list.ts'
import { PASSWORD_COST, type PasswordCost } from '../identity/passwords.ts'
import { parsePostgresUrl } from '../store/engine/postgres-url.ts'

/** An invalid setting. The start prints this message and exits with code 78. */
export class SettingError extends Error {
  constructor(setting: string, why: string) {
    super(`${setting} ${why}`)
    this.name = 'SettingError'
  }
}

type Env = Readonly<Record<string, string | undefined>>

/** Parses a value that is set. Throws a SettingError with this name. */
type Parser<T> = (text: string, name: string) => T

const integer =
  (min: number, max: number): Parser<number> =>
  (text, name) => {
    const value = Number(text)
    if (!/^\d+$/.test(text) || value < min || value > max)
      throw new SettingError(name, `must be a whole number from ${min} to ${max}, not "${text}"`)
    return value
  }

const oneOf =
  <const T extends string>(...choices: readonly T[]): Parser<T> =>
  (text, name) => {
    const match = choices.find(choice => choice === text)
    if (!match) throw new SettingError(name, `must be one of ${choices.join(', ')}, not "${text}"`)
    return match
  }

function host(text: string, name: string): string {
  if (!/^[A-Za-z0-9.:_-]+$/.test(text))
    throw new SettingError(name, `must be a host name or IP address, not "${text}"`)
  return text
}

const directory = (text: string) => (isAbsolute(text) ? text : resolve(text))

function databaseUrl(text: string, name: string): string {
  try {
    const { hosts, kind } = parsePostgresUrl(text)
    if (kind !== undefined && kind !== 'writable' && (hosts.length > 1 || kind !== 'any'))
      throw new Error('must have target_session_attrs=read-write')
  } catch (error) {
    throw new SettingError(name, `${(error as Error).message}; or leave it unset for the embedded database`)
  }
  return text
}

function replicaUrl(text: string, name: string): string {
  try {
    parsePostgresUrl(text)
  } catch (error) {
    throw new SettingError(name, (error as Error).message)
  }
  return text
}

/** Secrets from public examples. */
const KNOWN_SECRETS = /^(random_string|changeme|change-me|secret|password|sluice)+$/i
const MIN_SECRET_LENGTH = 32

/** Newest first: the first secret encrypts, all of them decrypt. */
export function readKeyring(text: string, source: string): readonly string[] {
  const secrets = text
    .split(',')
    .map(part => part.trim())
    .filter(part => part !== '')
  if (secrets.length === 0) throw new SettingError(source, 'must not be empty')
  for (const secret of secrets) {
    if (secret.length < MIN_SECRET_LENGTH)
      throw new SettingError(source, `must have at least ${MIN_SECRET_LENGTH} characters in every secret`)
    if (KNOWN_SECRETS.test(secret) || new Set(secret).size < 8)
      throw new SettingError(source, 'is a well-known or too simple secret: use random characters')
  }
  return secrets
}

function rootAccessToken(text: string, name: string): string {
  if (!/^[A-Za-z0-9._-]{20,200}$/.test(text))
    throw new SettingError(name, 'must be 20 to 200 characters of A-Z a-z 0-9 . _ -')
  if (text.startsWith('sk-'))
    throw new SettingError(name, 'must not begin with sk-, the prefix of relay tokens')
  return text
}

function rootPassword(text: string, name: string): string {
  const length = [...text].length
  if (length < 8 || length > 128) throw new SettingError(name, 'must have 8 to 128 characters')
  return text
}

function trustedProxies(text: string, name: string): readonly string[] {
  const parts = text.split(/[\s,]+/).filter(part => part !== '')
  for (const part of parts) {
    if (!isAddressOrRange(part))
      throw new SettingError(name, `must be a list of IP addresses and CIDR ranges; "${part}" is neither`)
  }
  return parts
}

/** The value may contain a password, so the message does not repeat it. */
function proxyUrl(text: string, name: string): ProxyAddress {
  const reading = readProxyUrl(text)
  if ('fault' in reading) throw new SettingError(name, reading.fault)
  return reading.value
}

const MAX_CA_BYTES = 1_048_576

/** Read at the start: with an invalid file, the gateway would refuse all providers that need it. */
function certificateFile(text: string, name: string): { readonly file: string; readonly pem: string } {
  const file = resolve(text)
  let pem: string
  try {
    pem = readFileSync(file, 'utf8')
  } catch (error) {
    throw new SettingError(name, `cannot be read: ${(error as Error).message}`)
  }
  if (pem.length > MAX_CA_BYTES) throw new SettingError(name, 'must be a file of at most 1 MiB')
  if (readCertificates(pem) === undefined)
    throw new SettingError(name, 'must be a file with one or more valid certificates (PEM)')
  return { file, pem }
}

function hostList(text: string, name: string): readonly string[] {
  const parts = text.split(/[\s,]+/).filter(part => part !== '')
  for (const part of parts)
    if (!isHostEntry(part))
      throw new SettingError(
        name,
        `must be a list of host names, IP addresses and CIDR ranges, each perhaps with a port; "${part}" is none`,
      )
  return parts
}

/** `192.0.2.1`, `192.0.2.1:53`, `2001:db8::1` or `[2001:db8::1]:53`. */
function dnsServers(text: string, name: string): readonly string[] {
  const parts = text.split(/[\s,]+/).filter(part => part !== '')
  for (const part of parts) {
    const [, bracketed, plain, port] = /^(?:\[([^\]]+)\]|([^:[\]]+))(?::(\d{1,5}))?$/.exec(part) ?? []
    const address = bracketed ?? plain ?? part
    if (!isIP(address) || (port !== undefined && (Number(port) < 1 || Number(port) > 65_535)))
      throw new SettingError(
        name,
        `must be a list of IP addresses, each perhaps with a port; "${part}" is none`,
      )
  }
  return parts
}

function basePath(text: string, name: string): string {
  const path = text.replace(/\/+$/, '')
  // Clients resolve `.` and `..` themselves, so such a path could never be reached.
  if (path !== '' && !/^(\/(?!\.{1,2}(\/|$))[A-Za-z0-9._~-]+)+$/.test(path))
    throw new SettingError(name, 'must look like /path or /path/deeper')
  return path
}

/** Where anchors are written: to a file, or as lines of the log. */
type AnchorTarget = { readonly file: string } | 'log'

/** The default. */
export const anchorIn = (dataDir: string): AnchorTarget => ({ file: join(dataDir, 'anchors.log') })

const anchorTarget = (text: string): AnchorTarget => (text === 'log' ? 'log' : { file: resolve(text) })

/** The value may contain a credential, so the message does not repeat it. */
function receiverUrl(text: string, name: string): string {
  const url = URL.parse(text)
  if (!url || !/^https?:$/.test(url.protocol))
    throw new SettingError(name, 'must be an http:// or https:// URL')
  if (url.username !== '' || url.password !== '' || url.hash !== '')
    throw new SettingError(name, 'must have no user name, no password and no fragment')
  return text
}

/** `name=value,name=value`, with percent-encoded values, as OpenTelemetry defines it. */
function pairs(text: string, name: string): Readonly<Record<string, string>> {
  const entries = text
    .split(',')
    .filter(part => part.trim() !== '')
    .map((part): [string, string] => {
      const at = part.indexOf('=')
      try {
        return [part.slice(0, Math.max(0, at)).trim(), decodeURIComponent(part.slice(at + 1).trim())]
      } catch {
        throw new SettingError(name, 'has a value with an invalid percent escape')
      }
    })
  if (entries.some(([key]) => key === '')) throw new SettingError(name, 'must be name=value,name=value,…')
  return Object.fromEntries(entries)
}

function headerPairs(text: string, name: string): Readonly<Record<string, string>> {
  const headers = pairs(text, name)
  for (const [key, value] of Object.entries(headers))
    if (!HEADER_NAME.test(key) || !HEADER_VALUE.test(value) || isFraming(key))
      throw new SettingError(name, 'has an entry that is not a valid header')
  return headers
}

function ratio(text: string, name: string): number {
  const value = Number(text)
  if (!/^\d*\.?\d+$/.test(text) || value > 1)
    throw new SettingError(name, `must be a number from 0 to 1, not "${text}"`)
  return value
}

/** Where records are shipped: a file, or an HTTP endpoint. */
export type ShipTarget = { readonly file: string } | { readonly url: string }

function shipTarget(text: string, name: string): ShipTarget {
  if (!text.startsWith('file:')) return { url: receiverUrl(text, name) }
  const path = text.replace(/^file:(\/\/(?=\/))?/, '')
  if (path === '') throw new SettingError(name, 'must be file:PATH or an http:// or https:// URL')
  return { file: resolve(path) }
}

type Setting = {
  /** The environment variable. */
  readonly name: string
  readonly parse: Parser<unknown>
  /** The text that is parsed if the variable is unset or empty; without it, the setting is then undefined. */
  readonly default?: string
  /** The value is a secret: it is not trimmed. */
  readonly isVerbatim?: true
  readonly help: string
}

/** Every setting at start (docs/reference/process.md: Settings at start). */
const SETTINGS = {
  host: { name: 'HOST', parse: host, default: '127.0.0.1', help: 'address to listen on' },
  port: { name: 'PORT', parse: integer(0, 65_535), default: '3000', help: 'port to listen on' },
  dataDir: { name: 'SLUICE_DATA', parse: directory, default: './data', help: 'data directory' },
  anchor: {
    name: 'SLUICE_ANCHOR',
    parse: anchorTarget,
    help: 'file for the heads of the ledger chains, or log (default: anchors.log in the data directory)',
  },
  databaseUrl: {
    name: 'DATABASE_URL',
    parse: databaseUrl,
    help: 'postgres://… URL of a PostgreSQL database (default: embedded SQLite)',
  },
  replicaUrl: {
    name: 'DATABASE_REPLICA_URL',
    parse: replicaUrl,
    help: 'postgres://… URL of a standby of DATABASE_URL, for reports and exports (default: none)',
  },
  keyring: {
    name: 'SLUICE_SECRET',
    parse: readKeyring,
    isVerbatim: true,
    help: 'master secret of 32 or more characters (default: the file secret in the data directory)',
  },
  rootPassword: {
    name: 'SLUICE_ROOT_PASSWORD',
    parse: rootPassword,
    isVerbatim: true,
    help: 'password of root on the first start (default: a random one, printed once)',
  },
  rootAccessToken: {
    name: 'SLUICE_ROOT_ACCESS_TOKEN',
    parse: rootAccessToken,
    isVerbatim: true,
    help: 'system access token of root, created on the first start',
  },
  workers: { name: 'SLUICE_WORKERS', parse: integer(1, 64), default: '1', help: 'worker processes' },
  privateUpstreams: {
    name: 'SLUICE_PRIVATE_UPSTREAMS',
    parse: oneOf('allow', 'deny'),
    default: 'allow',
    help: 'allow or deny channels on loopback and private addresses',
  },
  privateProxies: {
    name: 'SLUICE_PRIVATE_PROXIES',
    parse: hostList,
    default: '',
    help: 'hosts that channels may use as proxies even if SLUICE_PRIVATE_UPSTREAMS=deny refuses their addresses',
  },
  proxy: {
    name: 'SLUICE_PROXY',
    parse: proxyUrl,
    isVerbatim: true,
    help: 'proxy of all outgoing connections: http://, https://, socks5:// or socks5h:// (default: none)',
  },
  noProxy: {
    name: 'SLUICE_NO_PROXY',
    parse: hostList,
    default: 'localhost,127.0.0.0/8,::1',
    help: 'hosts to which the gateway connects without SLUICE_PROXY',
  },
  caCerts: {
    name: 'SLUICE_CA_CERTS',
    parse: certificateFile,
    help: 'file with certificates (PEM) that are trusted in addition to those of Node.js (default: none)',
  },
  dnsServers: {
    name: 'SLUICE_DNS_SERVERS',
    parse: dnsServers,
    default: '',
    help: 'DNS servers for the names of providers, as IP or IP:port (default: the resolver of the system)',
  },
  ipFamily: {
    name: 'SLUICE_IP_FAMILY',
    parse: oneOf('system', ...IP_FAMILIES),
    default: 'system',
    help: 'which addresses of a name are used: system, ipv4first, ipv6first, ipv4only or ipv6only',
  },
  logLevel: {
    name: 'SLUICE_LOG',
    parse: oneOf('trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'),
    default: 'info',
    help: 'log level: trace, debug, info, warn, error, fatal or silent',
  },
  logFormat: {
    name: 'SLUICE_LOG_FORMAT',
    parse: oneOf('auto', 'json'),
    default: 'auto',
    help: 'auto (text on a terminal, else JSON lines) or json',
  },
  metricsPort: {
    name: 'SLUICE_METRICS_PORT',
    parse: integer(1, 65_535),
    help: 'port of GET /metrics without a credential (default: none)',
  },
  metricsHost: {
    name: 'SLUICE_METRICS_HOST',
    parse: host,
    default: '127.0.0.1',
    help: 'address of that port',
  },
  otlpEndpoint: {
    name: 'OTEL_EXPORTER_OTLP_ENDPOINT',
    parse: receiverUrl,
    help: 'OTLP/HTTP receiver of traces and metrics; /v1/traces and /v1/metrics are appended (default: none)',
  },
  otlpTracesEndpoint: {
    name: 'OTEL_EXPORTER_OTLP_TRACES_ENDPOINT',
    parse: receiverUrl,
    help: 'the whole URL for traces, instead',
  },
  otlpMetricsEndpoint: {
    name: 'OTEL_EXPORTER_OTLP_METRICS_ENDPOINT',
    parse: receiverUrl,
    help: 'the whole URL for metrics, instead',
  },
  otlpHeaders: {
    name: 'OTEL_EXPORTER_OTLP_HEADERS',
    parse: headerPairs,
    default: ' ',
    help: 'headers for the receiver: name=value,name=value',
  },
  otlpTracesHeaders: {
    name: 'OTEL_EXPORTER_OTLP_TRACES_HEADERS',
    parse: headerPairs,
    help: 'headers for traces, instead',
  },
  otlpMetricsHeaders: {
    name: 'OTEL_EXPORTER_OTLP_METRICS_HEADERS',
    parse: headerPairs,
    help: 'headers for metrics, instead',
  },
  otlpProtocol: {
    name: 'OTEL_EXPORTER_OTLP_PROTOCOL',
    parse: oneOf('http/protobuf', 'http/json'),
    default: 'http/protobuf',
    help: 'http/protobuf or http/json',
  },
  otlpCompression: {
    name: 'OTEL_EXPORTER_OTLP_COMPRESSION',
    parse: oneOf('none', 'gzip'),
    default: 'none',
    help: 'none or gzip',
  },
  otlpTimeoutMs: {
    name: 'OTEL_EXPORTER_OTLP_TIMEOUT',
    parse: integer(1, 600_000),
    default: '10000',
    help: 'milliseconds that an export may take',
  },
  otelServiceName: {
    name: 'OTEL_SERVICE_NAME',
    parse: text => text,
    help: 'service.name of traces and metrics (default: sluice)',
  },
  otelResource: {
    name: 'OTEL_RESOURCE_ATTRIBUTES',
    parse: pairs,
    default: ' ',
    help: 'further attributes of this gateway: name=value,name=value',
  },
  otelTraces: {
    name: 'OTEL_TRACES_EXPORTER',
    parse: oneOf('otlp', 'none'),
    default: 'otlp',
    help: 'otlp, or none for no traces',
  },
  otelMetrics: {
    name: 'OTEL_METRICS_EXPORTER',
    parse: oneOf('otlp', 'none'),
    default: 'otlp',
    help: 'otlp, or none for no metrics',
  },
  otelMetricIntervalMs: {
    name: 'OTEL_METRIC_EXPORT_INTERVAL',
    parse: integer(100, 86_400_000),
    default: '60000',
    help: 'milliseconds between two exports of metrics',
  },
  otelSampler: {
    name: 'OTEL_TRACES_SAMPLER',
    parse: oneOf(
      'parentbased_traceidratio',
      'parentbased_always_on',
      'parentbased_always_off',
      'traceidratio',
      'always_on',
      'always_off',
    ),
    default: 'parentbased_traceidratio',
    help: 'which traces are exported',
  },
  otelSamplerArg: {
    name: 'OTEL_TRACES_SAMPLER_ARG',
    parse: ratio,
    default: '1',
    help: 'the share of traces of the samplers with a ratio, 0 to 1',
  },
  shipUsage: {
    name: 'SLUICE_SHIP_USAGE',
    parse: shipTarget,
    help: 'file:PATH or URL that gets the usage log as JSON lines (default: none)',
  },
  shipAudit: {
    name: 'SLUICE_SHIP_AUDIT',
    parse: shipTarget,
    help: 'the same for audit records (default: none)',
  },
  shipRequests: {
    name: 'SLUICE_SHIP_REQUESTS',
    parse: shipTarget,
    help: 'the same for the log lines of requests (default: none)',
  },
  shipHeaders: {
    name: 'SLUICE_SHIP_HEADERS',
    parse: headerPairs,
    default: ' ',
    help: 'headers for those URLs: name=value,name=value',
  },
  durability: {
    name: 'SLUICE_DURABILITY',
    parse: oneOf('normal', 'full'),
    default: 'normal',
    help: 'normal, or full for an fsync of every commit',
  },
  drainS: {
    name: 'SLUICE_DRAIN_S',
    parse: integer(0, 3600),
    default: '120',
    help: 'seconds that a stop waits for running requests',
  },
  drainDelayS: {
    name: 'SLUICE_DRAIN_DELAY_S',
    parse: integer(0, 300),
    help: 'seconds for which a stop first serves new requests, not ready (default: 0, with DATABASE_URL 5)',
  },
  fenceS: {
    name: 'SLUICE_FENCE_S',
    parse: integer(5, 600),
    default: '75',
    help: 'seconds without PostgreSQL after which a gateway refuses requests',
  },
  outageS: {
    name: 'SLUICE_OUTAGE_S',
    parse: integer(0, 600),
    default: '60',
    help: 'seconds without PostgreSQL that leases of accounts in use cover',
  },
  basePath: {
    name: 'SLUICE_BASE_PATH',
    parse: basePath,
    default: '',
    help: 'path prefix behind a reverse proxy',
  },
  tlsCert: {
    name: 'SLUICE_TLS_CERT',
    parse: directory,
    help: 'file with a certificate and its chain (PEM), for TLS without a proxy (default: none)',
  },
  tlsKey: { name: 'SLUICE_TLS_KEY', parse: directory, help: 'file with its private key (PEM)' },
  trustedProxies: {
    name: 'SLUICE_TRUSTED_PROXIES',
    parse: trustedProxies,
    default: '',
    help: 'addresses and CIDR ranges of reverse proxies whose forwarding headers are used',
  },
  maxConnections: {
    name: 'SLUICE_MAX_CONNECTIONS',
    parse: integer(10, 1_000_000),
    default: '10000',
    help: 'maximum number of connections of a worker',
  },
  videoDoubtS: {
    name: 'SLUICE_VIDEO_DOUBT_S',
    parse: integer(1, 86_400),
    default: '900',
    help: 'seconds that an unresolved video submission is searched for',
  },
  videoDeadlineS: {
    name: 'SLUICE_VIDEO_DEADLINE_S',
    parse: integer(1, 604_800),
    default: '86400',
    help: 'seconds after which an unfinished video job has failed',
  },
  maxBodyMb: {
    name: 'SLUICE_MAX_BODY_MB',
    parse: integer(1, 1024),
    default: '64',
    help: 'maximum JSON body of a relay request, in MiB',
  },
  maxMemoryMb: {
    name: 'SLUICE_MAX_MEMORY_MB',
    parse: integer(1, 16_777_216),
    help: 'maximum of all request bodies together, in MiB (default: a quarter of the memory)',
  },
  maxTmpMb: {
    name: 'SLUICE_MAX_TMP_MB',
    parse: integer(1, 1_073_741_824),
    help: 'maximum of all uploads together, in MiB (default: a tenth of the free disk)',
  },
} as const satisfies Readonly<Record<string, Setting>>

type Settings = typeof SETTINGS
type ValueOf<S extends Setting> = ReturnType<S['parse']> | (S extends { default: string } ? never : undefined)
type Values = { readonly [Key in keyof Settings]: ValueOf<Settings[Key]> }

function read(env: Env, { name, parse, default: fallback, isVerbatim }: Setting): unknown {
  const text = (isVerbatim ? env[name] : env[name]?.trim()) || fallback
  return text === undefined ? undefined : parse(text, name)
}

/** A fleet has a proxy in front, which needs time to notice that a node is not ready. */
const FLEET_DRAIN_DELAY_S = 5

type TlsSettings = { readonly certFile: string; readonly keyFile: string }

/** Where the certificate is; undefined without TLS. */
function tlsSettings({ tlsCert, tlsKey }: Pick<Values, 'tlsCert' | 'tlsKey'>): TlsSettings | undefined {
  if (tlsCert === undefined && tlsKey === undefined) return undefined
  if (tlsCert === undefined) throw new SettingError('SLUICE_TLS_CERT', 'must be set if SLUICE_TLS_KEY is')
  if (tlsKey === undefined) throw new SettingError('SLUICE_TLS_KEY', 'must be set if SLUICE_TLS_CERT is')
  return { certFile: tlsCert, keyFile: tlsKey }
}

/** Reads every setting. No other code reads the environment. */
export function readConfig(env: Env) {
  const values = Object.fromEntries(
    Object.entries(SETTINGS).map(([key, setting]) => [key, read(env, setting)]),
  ) as Values
  if (values.replicaUrl !== undefined && values.databaseUrl === undefined)
    throw new SettingError('DATABASE_REPLICA_URL', 'needs DATABASE_URL, of which it is a standby')
  if (values.metricsPort === values.port && values.metricsHost === values.host)
    throw new SettingError('SLUICE_METRICS_PORT', 'must differ from PORT')
  const anchor = values.anchor ?? anchorIn(values.dataDir)
  // Not a setting: tests turn it off, to run over node:http alone.
  const usesHttp1: boolean = true
  // Not a setting either: tests lower it.
  const passwordCost: PasswordCost = PASSWORD_COST
  const drainDelayS: number =
    values.drainDelayS ?? (values.databaseUrl === undefined ? 0 : FLEET_DRAIN_DELAY_S)
  return { ...values, anchor, drainDelayS, usesHttp1, passwordCost, tls: tlsSettings(values) }
}

/** Variables with an invalid value, each with the reason. */
export function settingFaults(env: Env): ReadonlyMap<string, string> {
  const faults = new Map<string, string>()
  for (const setting of Object.values(SETTINGS))
    try {
      read(env, setting)
    } catch (error) {
      if (!(error instanceof SettingError)) throw error
      faults.set(setting.name, error.message)
    }
  const [cert, key] = [env.SLUICE_TLS_CERT, env.SLUICE_TLS_KEY]
  if (Boolean(cert) !== Boolean(key)) {
    const [present, absent] = cert
      ? ['SLUICE_TLS_CERT', 'SLUICE_TLS_KEY']
      : ['SLUICE_TLS_KEY', 'SLUICE_TLS_CERT']
    faults.set(present, `${absent} must be set if ${present} is`)
  }
  return faults
}

/** Variables that look like settings but are none: they may be misspelled. */
export function unknownSettings(env: Env): readonly string[] {
  const names: ReadonlySet<string> = new Set(Object.values(SETTINGS).map(({ name }) => name))
  return Object.keys(env).filter(name => name.startsWith('SLUICE_') && !names.has(name))
}

export type Config = ReturnType<typeof readConfig>

const NAME_WIDTH = 38

/** One line for each setting, for `sluice start --help`. */
export const settingsHelp = (): readonly string[] =>
  Object.values(SETTINGS).map(({ name, help, default: value }: Setting) =>
    `${name.padEnd(NAME_WIDTH)}${help}${value?.trim() ? ` (default: ${value})` : ''}`.trimEnd(),
  )
