import { ALIAS_STATUS } from '../domain/alias.ts'
import { type CanaryMark, type CanarySide, type CanarySplit, canaryPlace } from '../domain/canary.ts'
import { CHANNEL_STATUS } from '../domain/channel.ts'
import { NO_TOKEN } from '../domain/token.ts'
import {
  type AliasPath,
  backing,
  followAliases,
  type RoutedAlias,
  type RoutedChannel,
  type RoutedModel,
  type Table,
} from './table.ts'

/** Which requests a canary concerns, and which of them try its change (docs/reference/canary.md: Who takes part). */
export type CanaryRule = {
  readonly id: number
  readonly round: number
  /** Tenths of a percent. */
  readonly share: number
  readonly splitBy: CanarySplit
  /** Undefined: every token. */
  readonly tokenIds: ReadonlySet<number> | undefined
}

/** The variant has the id of its channel, and its own `healthId`. */
export type ChannelCanary<C> = CanaryRule & { readonly variant: C }
export type AliasCanary = CanaryRule & { readonly variant: RoutedAlias }

export type RunningCanaries<C> = {
  readonly channels: readonly ChannelCanary<C>[]
  readonly aliases: readonly AliasCanary[]
}

/** The request that a route is for. */
type Requester = { readonly tokenId: number; readonly requestId: string }

/** The route of a request that takes part in canaries. */
export type CanaryRoute<C> = {
  /** Undefined: as in `Table`. */
  readonly route: RoutedModel<C> | undefined
  readonly marks: readonly CanaryMark[]
}

/** The health of a canary's variant has this id. No channel has a negative id. */
export const variantHealthId = (canaryId: number) => -canaryId

/** The side of a request; undefined: the canary does not concern it. */
export function canarySide(rule: CanaryRule, { tokenId, requestId }: Requester): CanarySide | undefined {
  const { id, share, splitBy, tokenIds } = rule
  if (tokenIds !== undefined && !tokenIds.has(tokenId)) return undefined
  if (splitBy === 'request') return canaryPlace(id, requestId) < share ? 'canary' : 'baseline'
  if (tokenId === NO_TOKEN) return undefined
  return canaryPlace(id, String(tokenId)) < share ? 'canary' : 'baseline'
}

type Decide = (rule: CanaryRule) => CanarySide | undefined

/** The sides of a request on its way, and what they change. */
type Decisions<C> = {
  readonly way: AliasPath | undefined
  readonly marks: readonly CanaryMark[]
  /** The variants that replace their channels. */
  readonly variants: readonly C[]
}

/** More combinations of models and sides than this are computed again instead of cached. */
const MAX_ROUTES = 10_000

const modelsOf = (channel: RoutedChannel | undefined): ReadonlySet<string> =>
  new Set(channel === undefined || channel.status === CHANNEL_STATUS.disabled ? [] : channel.models)

/**
 * Routes requests while canaries run. A route is resolved as without canaries, except that every alias and channel with a
 * canary on the way is replaced by its variant for the requests that try it. Canaries divide requests independently of each
 * other.
 */
export function createCanaryRouter<C extends RoutedChannel>(
  table: Table<C>,
  canaries: RunningCanaries<C>,
): CanaryRouter<C> {
  const aliasCanaries = new Map(canaries.aliases.map(canary => [canary.variant.name, canary]))
  const channelCanaries = canaries.channels.map(canary => ({
    canary,
    before: modelsOf(table.channel(canary.variant.id)),
    after: modelsOf(canary.variant),
  }))
  const routes = new Map<string, RoutedModel<C>>()

  function decisionsOf(requestedModel: string, decide: Decide): Decisions<C> {
    const marks: CanaryMark[] = []
    const isTrying = (rule: CanaryRule) => {
      const side = decide(rule)
      if (side !== undefined) marks.push({ id: rule.id, round: rule.round, side })
      return side === 'canary'
    }
    const way = followAliases(name => {
      const canary = aliasCanaries.get(name)
      if (canary === undefined || !isTrying(canary)) return table.alias(name)
      return canary.variant.status === ALIAS_STATUS.enabled ? canary.variant : undefined
    }, requestedModel)
    const variants: C[] = []
    for (const { canary, before, after } of way === undefined ? [] : channelCanaries) {
      const { variant } = canary
      if (!before.has(way?.model ?? '') && !after.has(way?.model ?? '')) continue
      if (way?.filter !== undefined && !way.filter.has(variant.id)) continue
      if (isTrying(canary)) variants.push(variant)
    }
    return { way, marks, variants }
  }

  function routeOf(
    requestedModel: string,
    { way, marks, variants }: Decisions<C>,
  ): RoutedModel<C> | undefined {
    if (!way) return undefined
    const { names, model, filter } = way
    const replacedIds = new Set(variants.map(({ id }) => id))
    const listed = table
      .listed(model)
      .filter(({ id }) => (filter === undefined || filter.has(id)) && !replacedIds.has(id))
    const tried = variants.filter(variant => modelsOf(variant).has(model))
    const byPriority = [...listed, ...tried].sort((a, b) => b.priority - a.priority || a.id - b.id)
    const { tiers, pools, disabled } = backing(byPriority)
    if (tiers.length === 0 && disabled.length === 0) return undefined
    return {
      requestedModel,
      model,
      names,
      tiers,
      pools,
      disabled,
      isListed: tiers.length > 0,
      canaries: marks,
    }
  }

  return {
    resolve(requestedModel, requester) {
      const decisions = decisionsOf(requestedModel, rule => canarySide(rule, requester))
      const { marks } = decisions
      if (marks.length === 0) return undefined
      const name = `${requestedModel}\n${marks.map(({ id, side }) => `${id} ${side}`).join()}`
      const route = routes.get(name) ?? routeOf(requestedModel, decisions)
      // Unknown names are not cached: clients can invent any number of them.
      if (route !== undefined && routes.size < MAX_ROUTES) routes.set(name, route)
      return { route, marks }
    },

    resolveWith(requestedModel, decide) {
      const decisions = decisionsOf(requestedModel, decide)
      return { route: routeOf(requestedModel, decisions), marks: decisions.marks }
    },
  }
}

export type CanaryRouter<C> = {
  /** The route of a request. Undefined: no canary concerns it. */
  resolve(requestedModel: string, requester: Requester): CanaryRoute<C> | undefined
  /** The same with sides that the caller decides, for explanations. */
  resolveWith(requestedModel: string, decide: Decide): CanaryRoute<C>
}
