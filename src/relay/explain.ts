import { SHARE_STEPS } from '../domain/canary.ts'
import type { ChannelCondition } from '../domain/channel-condition.ts'
import type { Operation } from '../domain/operation.ts'
import { type CanaryRule, canarySide } from '../routing/canary.ts'
import { healthOf } from '../routing/condition.ts'
import { type ExplainedCanary, plan, type RouteExplanation } from '../routing/plan.ts'
import { type PlanDeps, planOptions } from './candidates.ts'
import { addressAt, type CatalogPrice, type FormatChoice, type RelayChannel } from './catalog/catalog.ts'
import { createSkipReason } from './eligibility.ts'
import { SPECS } from './operations/index.ts'
import { ChannelPrices } from './price/price.ts'
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

type ExplainedRequest = {
  readonly model: string
  readonly operation: Operation
  /** Undefined: any token. */
  readonly tokenId?: number | undefined
  /** A canary whose change the explained request tries. */
  readonly canaryId?: number | undefined
}

/** The side of a request that is not sent: its request id is unknown. */
function explainedSide(rule: CanaryRule, { tokenId, canaryId }: ExplainedRequest): ExplainedCanary {
  const { id, share, splitBy, tokenIds } = rule
  const percent = `${share / 10}%`
  if (id === canaryId)
    return { id, side: 'canary', reason: 'The explanation assumes that it tries the change.' }
  if (tokenIds !== undefined && tokenId === undefined)
    return { id, side: null, reason: 'Only requests of some tokens take part.' }
  if (tokenIds !== undefined && !tokenIds.has(tokenId ?? 0))
    return { id, side: null, reason: 'Requests of this token do not take part.' }
  if (share === SHARE_STEPS)
    return { id, side: 'canary', reason: 'All requests that take part try the change.' }
  if (splitBy === 'request')
    return {
      id,
      side: 'baseline',
      reason: `${percent} of the requests try the change, by their request IDs.`,
    }
  if (tokenId === undefined)
    return { id, side: 'baseline', reason: `${percent} of the tokens try the change, by their IDs.` }
  const side = canarySide(rule, { tokenId, requestId: '' }) ?? null
  const isTrying = side === 'canary'
  return {
    id,
    side,
    reason: `This token is ${isTrying ? '' : 'not '}among the ${percent} that try the change.`,
  }
}

function explainedRoute(catalog: PlanDeps['catalog'], request: ExplainedRequest) {
  const canaries: ExplainedCanary[] = []
  const router = catalog.canaries()
  if (!router) return { route: catalog.table().resolve(request.model), canaries }
  const { route } = router.resolveWith(request.model, rule => {
    const explained = explainedSide(rule, request)
    canaries.push(explained)
    return explained.side ?? undefined
  })
  return { route, canaries }
}

/** The origin of a channel's requests, for which a proxy is chosen. */
export function originOf(channel: RelayChannel, key = '', model = ''): string | undefined {
  return addressAt(channel, '/', key, { model })?.url.origin
}

/** Explains the current plan for a model, by the same rules as for a request that is sent. */
export const createExplain =
  (deps: PlanDeps) =>
  (request: ExplainedRequest, conditions: readonly ChannelCondition[]): RouteExplanation<RelayChannel> => {
    const { catalog } = deps
    const { operation } = request
    const { route, canaries } = explainedRoute(catalog, request)
    if (!route) return { servedAs: undefined, price: undefined, steps: [], passedOver: [], canaries }
    const prices = new ChannelPrices(catalog, route)
    const { shared } = prices
    const skipReason = createSkipReason({
      catalog,
      route,
      spec: specOf(operation),
      prices: {
        priceFor(channel) {
          const price = prices.priceFor(channel)
          return price && isBilledBy(operation, price) ? price : undefined
        },
      },
    })
    return {
      ...plan(planOptions({ ...deps, health: healthOf(conditions, deps.health) }, { route, skipReason })),
      canaries,
      servedAs: route.model,
      price: shared && { model: shared.model, version: shared.version },
    }
  }
