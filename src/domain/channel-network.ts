import { isObject, type JsonObject } from './json-object.ts'
import { maskedForm } from './secret-name.ts'

/** How the gateway connects to the provider of a channel (docs/operating/network.md: Settings of a channel). */

/** The order or restriction of addresses, if a name has IPv4 and IPv6 addresses. */
export const IP_FAMILIES = ['ipv4first', 'ipv6first', 'ipv4only', 'ipv6only'] as const
export type IpFamily = (typeof IP_FAMILIES)[number]

export const isIpFamily = (value: unknown): value is IpFamily =>
  (IP_FAMILIES as readonly unknown[]).includes(value)

/** The value of `setting.proxy` for a channel that uses no proxy, not even that of the gateway. */
export const DIRECT = 'direct'

const SCHEMES = ['http', 'https', 'socks5', 'socks5h'] as const
type ProxyScheme = (typeof SCHEMES)[number]
const DEFAULT_PORTS: Readonly<Record<ProxyScheme, number>> = {
  http: 80,
  https: 443,
  socks5: 1080,
  socks5h: 1080,
}
const MAX_CREDENTIAL_BYTES = 255
const MAX_PROXY_LENGTH = 2_000

export type ProxyAddress = {
  readonly scheme: ProxyScheme
  /** Without the brackets of an IPv6 address. */
  readonly hostname: string
  readonly port: number
  readonly username: string
  readonly password: string
}

type ProxyReading = { readonly value: ProxyAddress } | { readonly fault: string }

/** The parts of a URL may contain escapes; a literal `%` is no fault. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

const byteLength = (text: string) => new TextEncoder().encode(text).length
const bare = (hostname: string) => hostname.replace(/^\[|\]$/g, '')

/** Parses the URL of a proxy. A fault does not repeat the text, which may contain a password. */
export function readProxyUrl(text: string): ProxyReading {
  const scheme = SCHEMES.find(each => text.toLowerCase().startsWith(`${each}://`))
  if (scheme === undefined) return { fault: 'must begin with http://, https://, socks5:// or socks5h://' }
  // URL parsers accept blanks, but a URL with them is not recognized elsewhere, and its password would not be masked.
  if (/[\s\p{Cc}]/u.test(text)) return { fault: 'must not contain blanks; write %20 in a password' }
  const rest = text.slice(scheme.length)
  // Hosts are normalized in URLs of known schemes only, and ports are kept in those of other schemes only.
  const url = text.length > MAX_PROXY_LENGTH ? null : URL.parse(`http${rest}`)
  const port = URL.parse(`socks5${rest}`)?.port
  if (!url || port === undefined || url.hostname === '')
    return { fault: 'must be a URL such as http://user:password@proxy.example:3128' }
  if ((url.pathname !== '/' && url.pathname !== '') || url.search !== '' || url.hash !== '')
    return { fault: 'must not have a path, query or fragment' }
  const [username, password] = [decoded(url.username), decoded(url.password)]
  if (byteLength(username) > MAX_CREDENTIAL_BYTES || byteLength(password) > MAX_CREDENTIAL_BYTES)
    return { fault: `must have a user name and password of at most ${MAX_CREDENTIAL_BYTES} bytes` }
  if (username.includes(':')) return { fault: 'must have a user name without a colon' }
  const number = port === '' ? DEFAULT_PORTS[scheme] : Number(port)
  if (number === 0) return { fault: 'must have a port from 1 to 65535' }
  return { value: { scheme, hostname: bare(url.hostname), port: number, username, password } }
}

/** The address of a proxy without its credentials. */
export const proxyLabel = ({ scheme, hostname, port }: ProxyAddress) =>
  `${scheme}://${hostname.includes(':') ? `[${hostname}]` : hostname}:${port}`

/** Members of `setting` that are stored encrypted, apart from the others. */
const SECRET_MEMBERS = ['proxy', 'client_key'] as const
type SecretMember = (typeof SECRET_MEMBERS)[number]
export type NetworkSecrets = { readonly [name in SecretMember]?: string }

/** What the stored `setting` has in place of a secret; undefined: the value contains none. */
function placeholderOf(name: SecretMember, value: unknown): string | undefined {
  if (typeof value !== 'string' || value === '') return undefined
  if (name === 'client_key') return '…'
  const masked = maskedForm(name, value)
  return masked === value ? undefined : masked
}

/** The setting with placeholders, and the secrets that they stand for. */
export function splitSetting(setting: JsonObject): {
  readonly open: JsonObject
  readonly secrets: NetworkSecrets
} {
  const open: Record<string, unknown> = { ...setting }
  const secrets: { [name in SecretMember]?: string } = {}
  for (const name of SECRET_MEMBERS) {
    const placeholder = placeholderOf(name, setting[name])
    if (placeholder === undefined) continue
    open[name] = placeholder
    secrets[name] = String(setting[name])
  }
  return { open, secrets }
}

/** The reverse. A member that an older version has changed since is not a placeholder any more, and stays. */
export function joinSetting(open: JsonObject, secrets: unknown): JsonObject {
  if (!isObject(secrets)) return open
  const setting: Record<string, unknown> = { ...open }
  for (const name of SECRET_MEMBERS) {
    const secret = secrets[name]
    if (typeof secret === 'string' && open[name] === placeholderOf(name, secret)) setting[name] = secret
  }
  return setting
}

/** The setting without its placeholders: the secrets cannot be decrypted. */
export const withoutPlaceholders = (open: JsonObject): JsonObject =>
  Object.fromEntries(
    Object.entries(open).filter(
      ([name, value]) =>
        !(SECRET_MEMBERS as readonly string[]).includes(name) || !String(value).includes('…'),
    ),
  )
