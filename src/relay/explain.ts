import type { ChannelCondition } from '../domain/channel-condition.ts'
import type { Operation } from '../domain/operation.ts'
import { healthOf } from '../routing/condition.ts'
import { plan, type RouteExplanation } from '../routing/plan.ts'
import { type PlanDeps, planOptions } from './candidates.ts'
import type { CatalogPrice, FormatChoice, RelayChannel } from './catalog/catalog.ts'
import { createSkipReason } from './eligibility.ts'
import { SPECS } from './operations/index.ts'
import { channelPrices } from './price/price.ts'
import { isOfVideos } from './videos/price.ts'
import { videoSpec } from './videos/request.ts'

/** The first specification of an operation: several paths may serve the same operation. */
function specOf(operation: Operation): FormatChoice {
  const choice = [...SPECS, videoSpec].find(spec => spec.operation === operation)
  if (!choice) throw new Error(`no path serves the operation ${operation}`)
  return choice
}

/** Whether a price bills this operation. Videos have no tokens, so they need a price per video or per second. */
const isBilledBy = (operation: Operation, price: CatalogPrice) => operation !== 'videos' || isOfVideos(price)

/** Explains the current plan for a model, by the same rules as for a request that is sent. */
export const createExplain =
  (deps: PlanDeps) =>
  (
    model: string,
    operation: Operation,
    conditions: readonly ChannelCondition[],
  ): RouteExplanation<RelayChannel> => {
    const { catalog } = deps
    const route = catalog.table().resolve(model)
    if (!route) return { servedAs: undefined, price: undefined, steps: [], passedOver: [] }
    const { shared, priceFor } = channelPrices(catalog, route)
    const skipReason = createSkipReason({
      catalog,
      route,
      spec: specOf(operation),
      priceFor(channel) {
        const price = priceFor(channel)
        return price && isBilledBy(operation, price) ? price : undefined
      },
    })
    return {
      ...plan(planOptions({ ...deps, health: healthOf(conditions, deps.health) }, { route, skipReason })),
      servedAs: route.model,
      price: shared && { model: shared.model, version: shared.version },
    }
  }
