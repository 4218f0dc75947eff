import type { ShadowCost } from '../../domain/canary.ts'
import { exactOrUndefined, usdText } from '../../domain/money.ts'
import type { When } from '../../domain/price.ts'
import type { Usage } from '../../domain/usage.ts'
import { sentModel } from '../../routing/table.ts'
import type { CatalogPrice, RelayChannel, ShadowPrice } from '../catalog/catalog.ts'
import type { RelayRequest } from '../request.ts'
import { type PriceSource, priceServed } from './price.ts'

type ServedUsage = {
  readonly channel: RelayChannel
  readonly usage: Usage
  readonly served: When | undefined
}

/** The model names whose prices may apply to a request. */
function pricedNames({ route, work }: RelayRequest, { channel, usage }: ServedUsage): ReadonlySet<string> {
  return new Set([
    ...route.names,
    sentModel(channel, route.model),
    ...(work.namedModels ?? []),
    ...(usage.inferences ?? []).flatMap(({ model }) => model ?? []),
  ])
}

/** The prices of the catalog with one of them replaced. `isUsed` tells whether the replaced one was asked for. */
function withShadow(catalog: PriceSource, model: string, { price, id }: ShadowPrice) {
  const shadow: CatalogPrice = { price, model, version: `shadow:${id}` }
  let isUsed = false
  return {
    isUsed: () => isUsed,
    settings: () => catalog.settings(),
    priceOf(names: readonly string[]): CatalogPrice | undefined {
      for (const name of names) {
        if (name === model) {
          isUsed = true
          return shadow
        }
        const price = catalog.priceOf([name])
        if (price) return price
      }
      return undefined
    },
  }
}

/**
 * What a request would have cost under each shadow price that concerns it. The usage is the one that was charged, and the
 * rules are those of real prices (docs/reference/canary.md: Shadow prices).
 */
export function shadowCosts(
  shadows: ReadonlyMap<string, ShadowPrice>,
  request: RelayRequest,
  served: ServedUsage,
): ShadowCost[] {
  const { deps, route, work, startedMs } = request
  const startedS = startedMs / 1000
  const costs: ShadowCost[] = []
  for (const model of pricedNames(request, served)) {
    const shadow = shadows.get(model)
    if (!shadow || startedS < shadow.from || (shadow.until !== undefined && startedS >= shadow.until))
      continue
    const prices = withShadow(deps.catalog, model, shadow)
    const cost = costUnder(prices, { route, work }, served)
    if (prices.isUsed() && cost !== undefined) costs.push({ id: shadow.id, cost: usdText(cost) })
  }
  return costs
}

function costUnder(
  prices: PriceSource,
  { route, work }: Pick<RelayRequest, 'route' | 'work'>,
  { channel, usage, served }: ServedUsage,
): number | undefined {
  // A shadow price may make a request too expensive for any quota. This must not affect the real settlement.
  return exactOrUndefined(() => priceServed(prices, route, work).costOf(channel, usage, served))
}
