import { isIP } from 'node:net'
import { Http1Error } from './errors.ts'
import type { ClientProxy } from './route.ts'

/** The server that a proxy is asked to connect to. */
export type ProxyTarget = { readonly hostname: string; readonly port: number }

/** The dialogue with a proxy that opens a tunnel, without sockets. */
export type ProxyHandshake = {
  /** The bytes to send first. */
  readonly opening: Buffer
  /** Takes received bytes. Returns the bytes to send next, none, or that the tunnel is open. Throws if the proxy refuses. */
  read(bytes: Buffer): Buffer | 'open' | undefined
}

type Credentials = Pick<ClientProxy, 'label' | 'username' | 'password'>

const MAX_HEAD_BYTES = 16 * 1024
const HEAD_END = '\r\n\r\n'
const STATUS_LINE = /^HTTP\/1\.[01] (\d{3})(?: |$)/
const PROXY_AUTHENTICATION_REQUIRED = 407
const UNAUTHORIZED = 401

const refused = (label: string, why: string) => new Http1Error('PROXY_REFUSED', `proxy ${label} ${why}`)
const malformed = (label: string, why: string) => new Http1Error('PROXY_MALFORMED', `proxy ${label} ${why}`)

function authorityOf({ hostname, port }: ProxyTarget): string {
  return isIP(hostname) === 6 ? `[${hostname}]:${port}` : `${hostname}:${port}`
}

/** RFC 9110: CONNECT. It is used for plain HTTP too, so that a refusal by the proxy is not mistaken for one by the server. */
export function openConnect(target: ProxyTarget, { label, username, password }: Credentials): ProxyHandshake {
  const authority = authorityOf(target)
  const hasCredentials = username !== '' || password !== ''
  const token = hasCredentials ? Buffer.from(`${username}:${password}`).toString('base64') : ''
  const authorization = hasCredentials ? `proxy-authorization: Basic ${token}\r\n` : ''
  let head = ''
  return {
    opening: Buffer.from(
      `CONNECT ${authority} HTTP/1.1\r\nhost: ${authority}\r\n${authorization}\r\n`,
      'latin1',
    ),
    read(bytes) {
      head += bytes.toString('latin1')
      const end = head.indexOf(HEAD_END)
      const status = Number(STATUS_LINE.exec(head.slice(0, head.indexOf('\r\n')))?.[1] ?? 0)
      if (end === -1) {
        if (head.length > MAX_HEAD_BYTES) throw malformed(label, 'sent a response that is too long')
        return undefined
      }
      if (status === 0) throw malformed(label, 'did not answer with HTTP/1.1; is it a proxy of this kind?')
      // tinyproxy answers with 401 to a wrong password.
      if (status === PROXY_AUTHENTICATION_REQUIRED || status === UNAUTHORIZED)
        throw refused(
          label,
          hasCredentials
            ? `refused the user name or password (${status})`
            : `requires a user name and password (${status})`,
        )
      if (status < 200 || status > 299)
        throw refused(label, `refused the connection to ${authority} (status ${status})`)
      // A server does not speak first, so these bytes would be mistaken for a response.
      if (head.length > end + HEAD_END.length) throw malformed(label, 'sent bytes before the server did')
      return 'open'
    },
  }
}

const VERSION = 5
const NO_AUTHENTICATION = 0
const USERNAME_PASSWORD = 2
const NONE_ACCEPTABLE = 0xff
const CONNECT = 1
const IPV4 = 1
const NAME = 3
const IPV6 = 4
const MAX_FIELD_BYTES = 255

/** RFC 1928, section 6. */
const REPLIES: Readonly<Record<number, string>> = {
  1: 'general failure',
  2: 'not allowed by its rules',
  3: 'network unreachable',
  4: 'host unreachable',
  5: 'connection refused',
  6: 'TTL expired',
  7: 'command not supported',
  8: 'address type not supported',
}

/** An IPv6 address may end with an IPv4 address: `::ffff:192.0.2.1`. */
function withoutDots(address: string): string {
  return address.replace(/(\d+)\.(\d+)\.(\d+)\.(\d+)$/, (_whole, ...parts) => {
    const [a = 0, b = 0, c = 0, d = 0] = parts.slice(0, 4).map(Number)
    return `${(a * 256 + b).toString(16)}:${(c * 256 + d).toString(16)}`
  })
}

function ipv6Bytes(address: string): Buffer {
  const [head = '', tail] = withoutDots(address).split('::')
  const groups = (text: string | undefined) => (text ? text.split(':') : [])
  const before = groups(head)
  const after = groups(tail)
  const zeros = Array.from({ length: 8 - before.length - after.length }, () => '0')
  const bytes = Buffer.alloc(16)
  for (const [index, group] of [...before, ...zeros, ...after].entries())
    bytes.writeUInt16BE(Number.parseInt(group, 16), index * 2)
  return bytes
}

function addressBytes(hostname: string): Buffer {
  const family = isIP(hostname)
  if (family === 4) return Buffer.from([IPV4, ...hostname.split('.').map(Number)])
  if (family === 6) return Buffer.concat([Buffer.from([IPV6]), ipv6Bytes(hostname)])
  const name = Buffer.from(hostname, 'latin1')
  if (name.length > MAX_FIELD_BYTES)
    throw new Http1Error('MALFORMED_REQUEST', 'the host name is too long for SOCKS')
  return Buffer.concat([Buffer.from([NAME, name.length]), name])
}

/** RFC 1928, with user name and password by RFC 1929. */
export function openSocks(target: ProxyTarget, { label, username, password }: Credentials): ProxyHandshake {
  const hasCredentials = username !== '' || password !== ''
  const port = Buffer.alloc(2)
  port.writeUInt16BE(target.port)
  const request = Buffer.concat([Buffer.from([VERSION, CONNECT, 0]), addressBytes(target.hostname), port])
  let received = Buffer.alloc(0)
  let step: (() => Buffer | 'open' | undefined) | undefined = readMethod

  function take(length: number): Buffer | undefined {
    if (received.length < length) return undefined
    const part = received.subarray(0, length)
    received = received.subarray(length)
    return part
  }

  function readMethod(): Buffer | undefined {
    const reply = take(2)
    if (reply === undefined) return undefined
    const [version, method] = reply
    if (version !== VERSION) throw malformed(label, 'did not answer with SOCKS version 5')
    if (method === NO_AUTHENTICATION) {
      step = readReply
      return request
    }
    if (method === USERNAME_PASSWORD && hasCredentials) {
      step = readAuthentication
      return credentialBytes()
    }
    if (method === NONE_ACCEPTABLE && !hasCredentials)
      throw refused(label, 'requires a user name and password')
    throw refused(label, 'accepts none of the ways to authenticate')
  }

  function credentialBytes(): Buffer {
    const [name, word] = [Buffer.from(username), Buffer.from(password)]
    if (name.length > MAX_FIELD_BYTES || word.length > MAX_FIELD_BYTES)
      throw new Http1Error('MALFORMED_REQUEST', 'the user name or password is too long for SOCKS')
    return Buffer.concat([Buffer.from([1, name.length]), name, Buffer.from([word.length]), word])
  }

  function readAuthentication(): Buffer | undefined {
    const reply = take(2)
    if (reply === undefined) return undefined
    if (reply[1] !== 0) throw refused(label, 'refused the user name or password')
    step = readReply
    return request
  }

  function readReply(): 'open' | undefined {
    if (received.length < 2) return undefined
    const [version, code = 0] = received
    if (version !== VERSION) throw malformed(label, 'did not answer with SOCKS version 5')
    if (code !== 0)
      throw refused(
        label,
        `could not connect to ${authorityOf(target)}: ${REPLIES[code] ?? 'unknown failure'} (SOCKS ${code})`,
      )
    if (received.length < 5) return undefined
    const [, , , type, nameLength = 0] = received
    const addressLength = type === IPV4 ? 4 : type === IPV6 ? 16 : type === NAME ? 1 + nameLength : undefined
    if (addressLength === undefined) throw malformed(label, 'sent an invalid address')
    if (take(4 + addressLength + 2) === undefined) return undefined
    if (received.length > 0) throw malformed(label, 'sent bytes before the server did')
    step = undefined
    return 'open'
  }

  return {
    opening: Buffer.from(
      hasCredentials ? [VERSION, 2, NO_AUTHENTICATION, USERNAME_PASSWORD] : [VERSION, 1, NO_AUTHENTICATION],
    ),
    read(bytes) {
      received = Buffer.concat([received, bytes])
      return step?.()
    },
  }
}
