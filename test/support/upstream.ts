import { createAddressGuard } from '../../src/http/address-guard.ts'
import { createBudget } from '../../src/http/budget.ts'
import { createNetwork } from '../../src/http/network.ts'
import { createUpstream } from '../../src/relay/upstream/upstream.ts'

/** The outbound client by itself: it may connect to this machine, and never runs out of resources. */
export function openUpstream(connections: number) {
  const guard = createAddressGuard({ policy: { allowPrivate: true }, onRefused() {} })
  return createUpstream({
    network: createNetwork({ guard }),
    connections,
    memory: createBudget({ maxBytes: 1_048_576, onShortage() {} }),
    hasDescriptors: () => true,
    onShortage() {},
  })
}
