import { createAddressGuard, type RefusedAddressError } from '../http/address-guard.ts'
import { createHostList } from '../http/host-list.ts'
import { createNameLookups } from '../http/name-lookup.ts'
import { createNetwork } from '../http/network.ts'
import type { AddressPolicy } from '../http/upstream-address.ts'
import type { Config } from './config.ts'

/** Which addresses channels and their proxies may have. */
export const addressPolicyOf = ({ privateUpstreams, privateProxies }: Config): AddressPolicy => ({
  allowPrivate: privateUpstreams === 'allow',
  allowedProxies: createHostList(privateProxies),
})

/** How this process connects to others. */
export function openNetwork(config: Config, onRefused: (error: RefusedAddressError) => void) {
  const { proxy, noProxy, caCerts, dnsServers, ipFamily } = config
  const family = ipFamily === 'system' ? undefined : ipFamily
  const guard = createAddressGuard({
    policy: addressPolicyOf(config),
    onRefused,
    names: createNameLookups({ servers: dnsServers, family }),
  })
  return createNetwork({
    guard,
    proxy,
    noProxy: createHostList(noProxy),
    ca: caCerts?.pem,
    dnsServers,
    ipFamily: family,
  })
}
