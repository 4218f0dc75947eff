import ipaddr from 'ipaddr.js'

/** Ranges that the internet cannot reach. */
const PRIVATE_RANGES = new Set(['loopback', 'private', 'uniqueLocal', 'linkLocal', 'carrierGradeNat'])

/** Whether the internet may reach a listening address. `0.0.0.0` and `::` are all addresses of the machine. */
export function isPublicHost(host: string): boolean {
  if (/(^|\.)localhost$/i.test(host)) return false
  return !ipaddr.isValid(host) || !PRIVATE_RANGES.has(ipaddr.process(host).range())
}

/** A peer that sent forwarding headers and is not in SLUICE_TRUSTED_PROXIES. */
export type UntrustedProxy = { readonly peer: string; readonly time: number }

/** Keeps the first untrusted proxy: one warning is enough. */
export function createProxyReports(now: () => number, onFirst: (proxy: UntrustedProxy) => void) {
  let first: UntrustedProxy | undefined
  return {
    report(peer: string): void {
      if (first !== undefined) return
      first = { peer, time: now() }
      onFirst(first)
    },
    first: () => first,
  }
}

/** Shared by all workers. */
export type ProxyReports = {
  report(peer: string): void
  first(): UntrustedProxy | undefined | Promise<UntrustedProxy | undefined>
}
