import ipaddr from 'ipaddr.js'

/** What of its surroundings puts a gateway at risk, as far as it can see that itself. */

/** Ranges that connections from the internet do not reach. */
const INNER = new Set(['loopback', 'private', 'uniqueLocal', 'linkLocal', 'carrierGradeNat'])

/** Whether a listening address may be reached from the internet: `0.0.0.0` and `::` are all of the machine's. */
export function isPublicHost(host: string): boolean {
  if (/(^|\.)localhost$/i.test(host)) return false
  return !ipaddr.isValid(host) || !INNER.has(ipaddr.process(host).range())
}

/** A peer that sent forwarding headers although SLUICE_TRUSTED_PROXIES does not name it. */
export type UntrustedProxy = { readonly peer: string; readonly time: number }

/** Keeps the first one: one warning says what to do about all of them. */
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

/** Kept in one place for all workers. */
export type ProxyReports = {
  report(peer: string): void
  first(): UntrustedProxy | undefined | Promise<UntrustedProxy | undefined>
}
