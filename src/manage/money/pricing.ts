import { createHash } from 'node:crypto'
import { type Price, presentedPrice, quotaType } from '../../domain/price.ts'
import { rateUsd } from '../../domain/rate.ts'
import { type Ratios, ratios } from '../../domain/ratio.ts'
import { shippedOwner, shippedPrice } from '../../providers/prices/shipped.ts'
import { pricesInForce } from '../../store/records/prices.ts'
import { ENDPOINTS, endpointTypes } from '../channels/endpoint-types.ts'
import { listServed, type Served } from '../channels/served.ts'
import type { pricingContract } from '../contract/pricing.ts'
import { createKeyHolder } from '../people/api-key.ts'
import type { Handlers, RouteCall } from '../server/call.ts'
import type { Deps } from '../server/deps.ts'

/** The only group has ratio 1. */
const GROUP = 'default'
const NO_OWNER = 'custom'

/** Clients expect numbers; `unpriced` marks them as meaningless. */
const NO_RATIOS: Ratios = {
  model_ratio: 0,
  completion_ratio: 1,
  cache_ratio: 1,
  create_cache_ratio: 1,
  audio_ratio: 1,
  audio_completion_ratio: 1,
  image_ratio: 1,
  model_price: 0,
}

export const ownerOf = ({ pricedAs }: Served) =>
  pricedAs.reduce<string | undefined>((owner, name) => owner ?? shippedOwner(name), undefined) ?? NO_OWNER

const presentPricing = (model: Served, price: Price | undefined) => {
  const owner = ownerOf(model)
  return {
    model_name: model.name,
    owned_by: owner,
    owner_by: owner,
    quota_type: price ? quotaType(price) : 0,
    unpriced: price === undefined,
    input_price_per_million: price ? rateUsd('input', price.rates.input ?? 0) : null,
    output_price_per_million: price ? rateUsd('output', price.rates.output ?? 0) : null,
    ...(price && presentedPrice(price)),
    ...(price ? ratios(price) : NO_RATIOS),
    enable_groups: [GROUP],
    supported_endpoint_types: endpointTypes(model.name, price),
  }
}

/** The price of a served name: that of the first of its names with a price. */
export const createPriceOf =
  (prices: ReadonlyMap<string, { readonly price: Price }>, now: number) =>
  ({ pricedAs }: Served): Price | undefined => {
    for (const name of pricedAs) {
      const price = prices.get(name)?.price ?? shippedPrice(name, now * 1000)
      if (price !== undefined) return price
    }
    return undefined
  }

/** Prices of the models that a caller may use (docs/reference/management-api.md: Pricing). */
export function createPricingHandlers(deps: Deps): Handlers<typeof pricingContract> {
  const { db, now } = deps
  const keyHolder = createKeyHolder(deps, 'ip_not_allowed')

  /** A token with model limits sees only its own models; users see every served model. */
  async function mayUse(
    call: RouteCall<(typeof pricingContract)['pricing']>,
  ): Promise<(name: string) => boolean> {
    if (call.actor !== undefined) return () => true
    const token = await keyHolder(call)
    if (token.model_limits_enabled === 0) return () => true
    const allowed = new Set(JSON.parse(token.models) as string[])
    return name => allowed.has(name)
  }

  return {
    pricing: async call => {
      const isAllowed = await mayUse(call)
      const [served, prices] = await Promise.all([listServed(db), pricesInForce(db, now())])
      const priceOf = createPriceOf(prices, now())
      const models = served
        .filter(({ name }) => isAllowed(name))
        .map(model => presentPricing(model, priceOf(model)))
      const owners = [...new Set(models.map(model => model.owned_by))].sort()
      const data = models.map(model => ({ ...model, vendor_id: owners.indexOf(model.owned_by) + 1 }))
      return {
        success: true as const,
        message: '',
        data,
        vendors: owners.map((name, index) => ({ id: index + 1, name, description: '', icon: '' })),
        group_ratio: { [GROUP]: 1 },
        usable_group: { [GROUP]: 'Everybody' },
        supported_endpoint: ENDPOINTS,
        auto_groups: [GROUP],
        pricing_version: createHash('sha256').update(JSON.stringify(data)).digest('hex'),
      }
    },

    listUsableModels: async () => (await listServed(db)).map(({ name }) => name),
  }
}
