import type { Operation } from '../providers/index.ts'
import { type Plan, plan } from '../routing/plan.ts'
import { sentModel } from '../routing/table.ts'
import { formatOn, type RelayChannel } from './catalog/catalog.ts'
import { SPECS } from './operations/index.ts'
import type { RelayDeps } from './request.ts'

export type Explanation = Plan<RelayChannel> & {
  /** The name the channels list; undefined when none lists the asked one. */
  readonly servedAs: string | undefined
  readonly price: { readonly model: string; readonly version: string } | undefined
}

/** The plan for a request as it stands now, from the same code that walks it, with nothing sent. */
export const createExplain =
  ({ catalog, health, rates, random }: Pick<RelayDeps, 'catalog' | 'health' | 'rates' | 'random'>) =>
  (model: string, operation: Operation): Explanation => {
    const route = catalog.table().resolve(model)
    if (!route) return { servedAs: undefined, price: undefined, steps: [], passedOver: [] }
    const spec = SPECS.find(each => each.operation === operation)
    const found = catalog.priceOf(route.names)
    const refusal = (channel: RelayChannel): string | undefined => {
      const sent = sentModel(channel, route.model)
      if (!spec || !formatOn(channel, spec, sent)) return 'not_offered'
      const isPriced = found ?? catalog.priceOf([sent]) ?? catalog.settings().allow_unpriced_models
      return isPriced ? undefined : 'unpriced'
    }
    const made = plan({
      route,
      health,
      fullForS: channel => rates.fullForS({ kind: 'channel', id: channel.id, limits: channel.limits }),
      refusal,
      random,
      attempts: catalog.settings().attempts,
    })
    return { ...made, servedAs: route.model, price: found && { model: found.model, version: found.version } }
  }
