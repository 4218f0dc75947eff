import { isAbsolute, join, resolve } from 'node:path'
import { isAddressOrRange } from '../http/address.ts'

/** An invalid setting. The start prints this message and exits with code 78. */
export class SettingError extends Error {
  constructor(setting: string, why: string) {
    super(`${setting} ${why}`)
    this.name = 'SettingError'
  }
}

const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const
type Env = Readonly<Record<string, string | undefined>>

/** Secrets from public examples. */
const KNOWN_SECRETS = /^(random_string|changeme|change-me|secret|password|sluice)+$/i
const MIN_SECRET = 32

function whole(env: Env, name: string, fallback: number, [min, max]: readonly [number, number]): number {
  const text = env[name]?.trim()
  if (!text) return fallback
  const value = Number(text)
  if (!/^\d+$/.test(text) || value < min || value > max)
    throw new SettingError(name, `must be a whole number from ${min} to ${max}, not "${text}"`)
  return value
}

const wholeIfSet = (env: Env, name: string, range: readonly [number, number]): number | undefined =>
  env[name]?.trim() ? whole(env, name, 0, range) : undefined

function oneOf<const T extends string>(env: Env, name: string, choices: readonly T[], fallback: T): T {
  const text = env[name]?.trim()
  if (!text) return fallback
  const match = choices.find(choice => choice === text)
  if (!match) throw new SettingError(name, `must be one of ${choices.join(', ')}, not "${text}"`)
  return match
}

function databaseUrl(env: Env): string | undefined {
  const text = env.DATABASE_URL?.trim()
  if (!text) return undefined
  // The value may contain a password, so the message does not repeat it.
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (!url || !/^postgres(ql)?:$/.test(url.protocol))
    throw new SettingError('DATABASE_URL', 'must be a postgres://… URL, or unset for the embedded database')
  return text
}

/** Newest first: the first secret encrypts, all of them decrypt. */
export function readKeyring(text: string, source: string): readonly string[] {
  const secrets = text
    .split(',')
    .map(part => part.trim())
    .filter(part => part !== '')
  if (secrets.length === 0) throw new SettingError(source, 'must not be empty')
  for (const secret of secrets) {
    if (secret.length < MIN_SECRET)
      throw new SettingError(source, `must have at least ${MIN_SECRET} characters in every secret`)
    if (KNOWN_SECRETS.test(secret) || new Set(secret).size < 8)
      throw new SettingError(source, 'is a well-known or too simple secret: use random characters')
  }
  return secrets
}

function rootAccessToken(env: Env): string | undefined {
  const text = env.SLUICE_ROOT_ACCESS_TOKEN
  if (!text) return undefined
  if (!/^[A-Za-z0-9._-]{20,200}$/.test(text))
    throw new SettingError('SLUICE_ROOT_ACCESS_TOKEN', 'must be 20 to 200 characters of A-Z a-z 0-9 . _ -')
  if (text.startsWith('sk-'))
    throw new SettingError('SLUICE_ROOT_ACCESS_TOKEN', 'must not begin with sk-, the prefix of relay tokens')
  return text
}

function rootPassword(env: Env): string | undefined {
  const text = env.SLUICE_ROOT_PASSWORD
  if (!text) return undefined
  const length = [...text].length
  if (length < 8 || length > 128)
    throw new SettingError('SLUICE_ROOT_PASSWORD', 'must have 8 to 128 characters')
  return text
}

function trustedProxies(env: Env): readonly string[] {
  const parts = (env.SLUICE_TRUSTED_PROXIES ?? '').split(/[\s,]+/).filter(part => part !== '')
  for (const part of parts) {
    if (!isAddressOrRange(part))
      throw new SettingError(
        'SLUICE_TRUSTED_PROXIES',
        `must be a list of IP addresses and CIDR ranges; "${part}" is neither`,
      )
  }
  return parts
}

function basePath(env: Env): string {
  const text = (env.SLUICE_BASE_PATH ?? '').trim().replace(/\/+$/, '')
  if (text === '') return ''
  // Clients resolve `.` and `..` themselves, so such a path could never be reached.
  if (!/^(\/(?!\.{1,2}(\/|$))[A-Za-z0-9._~-]+)+$/.test(text))
    throw new SettingError('SLUICE_BASE_PATH', 'must look like /path or /path/deeper')
  return text
}

function host(env: Env): string {
  const text = env.HOST?.trim() || '127.0.0.1'
  if (!/^[A-Za-z0-9.:_-]+$/.test(text))
    throw new SettingError('HOST', `must be a host name or IP address, not "${text}"`)
  return text
}

/** Where anchors go: into a file, or as lines of the log. */
function anchor(env: Env, dataDir: string): { readonly file: string } | 'log' {
  const text = env.SLUICE_ANCHOR?.trim()
  if (text === 'log') return 'log'
  return { file: text ? resolve(text) : join(dataDir, 'anchors.log') }
}

/** Reads every setting (docs/reference/process.md: Settings at start). No other code reads the environment. */
export function readConfig(env: Env) {
  const dataText = env.SLUICE_DATA?.trim() || './data'
  const dataDir = isAbsolute(dataText) ? dataText : resolve(dataText)
  return {
    host: host(env),
    port: whole(env, 'PORT', 3000, [0, 65_535]),
    dataDir,
    anchor: anchor(env, dataDir),
    databaseUrl: databaseUrl(env),
    /** Undefined: the secret is in the data directory. */
    keyring: env.SLUICE_SECRET ? readKeyring(env.SLUICE_SECRET, 'SLUICE_SECRET') : undefined,
    rootPassword: rootPassword(env),
    rootAccessToken: rootAccessToken(env),
    workers: whole(env, 'SLUICE_WORKERS', 1, [1, 64]),
    privateUpstreams: oneOf(env, 'SLUICE_PRIVATE_UPSTREAMS', ['allow', 'deny'], 'allow'),
    logLevel: oneOf(env, 'SLUICE_LOG', LOG_LEVELS, 'info'),
    durability: oneOf(env, 'SLUICE_DURABILITY', ['normal', 'full'], 'normal'),
    drainS: whole(env, 'SLUICE_DRAIN_S', 120, [0, 3600]),
    basePath: basePath(env),
    trustedProxies: trustedProxies(env),
    /** Per worker. */
    maxConnections: whole(env, 'SLUICE_MAX_CONNECTIONS', 10_000, [10, 1_000_000]),
    videoDoubtS: whole(env, 'SLUICE_VIDEO_DOUBT_S', 900, [1, 86_400]),
    videoDeadlineS: whole(env, 'SLUICE_VIDEO_DEADLINE_S', 86_400, [1, 604_800]),
    maxBodyMb: whole(env, 'SLUICE_MAX_BODY_MB', 64, [1, 1024]),
    /** Undefined: derived from the machine (host/machine.ts). */
    maxMemoryMb: wholeIfSet(env, 'SLUICE_MAX_MEMORY_MB', [1, 16_777_216]),
    maxTmpMb: wholeIfSet(env, 'SLUICE_MAX_TMP_MB', [1, 1_073_741_824]),
  } as const
}

export type Config = ReturnType<typeof readConfig>
