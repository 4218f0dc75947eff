import { isAddressIn, isAddressOrRange } from './address.ts'

/** Whether a host is in a list. The port is that of the connection. */
export type HostList = (hostname: string, port: number) => boolean

const NAME = /^(?:\*?\.)?[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?$/i

type Entry = { readonly host: string; readonly port: number | undefined }

/** A port follows a name, an IPv4 address, or an IPv6 address in brackets. */
function readEntry(text: string): Entry | undefined {
  if (text === '*' || isAddressOrRange(text)) return { host: text, port: undefined }
  const [, host = '', port] = /^(\[[^\]]+\]|[^:[\]/]+)(?::(\d{1,5}))?$/.exec(text) ?? []
  const plain = host.replace(/^\[|\]$/g, '')
  const isHost = isAddressOrRange(plain) || (!host.startsWith('[') && NAME.test(plain))
  if (!isHost || (port !== undefined && (Number(port) < 1 || Number(port) > 65_535))) return undefined
  return { host: plain.toLowerCase(), port: port === undefined ? undefined : Number(port) }
}

/** Whether a text is an entry of a host list: `*`, a name, an IP address or CIDR range, perhaps with a port. */
export const isHostEntry = (text: string) => readEntry(text) !== undefined

const plainName = (hostname: string) => hostname.replace(/\.$/, '').toLowerCase()

/** A name stands for itself and its subdomains; with a dot in front, for its subdomains only. */
function matches(host: string, hostname: string): boolean {
  if (host === '*') return true
  if (isAddressOrRange(host)) return isAddressIn(hostname, [host])
  const suffix = host.replace(/^\*/, '')
  if (suffix.startsWith('.')) return hostname.endsWith(suffix)
  return hostname === suffix || hostname.endsWith(`.${suffix}`)
}

export function createHostList(entries: readonly string[]): HostList {
  const list = entries.flatMap(entry => readEntry(entry) ?? [])
  return (hostname, port) => {
    const plain = plainName(hostname)
    return list.some(entry => (entry.port === undefined || entry.port === port) && matches(entry.host, plain))
  }
}
