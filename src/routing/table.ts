import { ALIAS_STATUS, MAX_CHAIN } from '../domain/alias.ts'
import type { CanaryMark } from '../domain/canary.ts'
import { CHANNEL_STATUS } from '../domain/channel.ts'
import { KEY_STATUS } from '../domain/channel-key.ts'
import { type Pool, poolOf } from './draw.ts'
import type { RateLimits } from './meter.ts'

export type RoutedKey = {
  /** In the store. A key that replaces another has an id of its own. */
  readonly id: number
  /** The position among the keys of the channel, which shifts when one before it is deleted. */
  readonly index: number
  readonly value: string
  readonly status: 1 | 2 | 3
}

/** The key of a channel without keys. */
export const NO_KEY: RoutedKey = { id: 0, index: 0, value: '', status: KEY_STATUS.enabled }

/** The part of a channel that routing needs. */
export type RoutedChannel = {
  readonly id: number
  readonly name: string
  readonly type: number
  readonly models: readonly string[]
  readonly mapping: Readonly<Record<string, string>>
  readonly priority: number
  readonly weight: number
  readonly status: 1 | 2 | 3
  /** Empty: the vendor needs no key. */
  readonly keys: readonly RoutedKey[]
  readonly limits: RateLimits
  readonly autoBan: boolean
  /** The version of a channel that a canary tries has its own health, so that it cannot affect other requests. */
  readonly healthId?: number
}

/** Under this id the health of a channel is known. */
export const healthIdOf = ({ healthId, id }: Pick<RoutedChannel, 'id' | 'healthId'>): number => healthId ?? id

export type RoutedAlias = {
  readonly name: string
  readonly target: string
  /** Null or empty: any channel. */
  readonly channelIds: readonly number[] | null
  readonly status: 1 | 2
}

export type PriorityTier<C> = { readonly priority: number; readonly channels: readonly C[] }

/** Channels drawn from together; `tier` is the index of their tier in the route. */
export type TierPool<C> = Pool<C> & { readonly tier: number }

/** The channels that can serve a model. */
type Backing<C> = {
  /** Enabled channels, the highest priority first. */
  readonly tiers: readonly PriorityTier<C>[]
  /** The same channels in the order in which they are drawn. */
  readonly pools: readonly TierPool<C>[]
  /** Auto-disabled channels. They get no requests, but their models exist (503 instead of 404). */
  readonly disabled: readonly C[]
}

export type RoutedModel<C> = Backing<C> & {
  readonly requestedModel: string
  /** The name that the channels list: the last target of the aliases, or the requested name itself. */
  readonly model: string
  /** The requested name, then each alias target (docs/reference/money.md: Which price applies). */
  readonly names: readonly string[]
  /** Listed by `/v1/models`: an enabled channel serves it. */
  readonly isListed: boolean
  /** Its only channel was named by an administrator, and may be disabled. */
  readonly isForced?: true
  /** The canaries that the request takes part in; undefined: none. */
  readonly canaries?: readonly CanaryMark[]
}

export type Table<C> = {
  readonly channels: readonly C[]
  /** By id, or by the `healthId` of a version that a canary tries. */
  channel(id: number): C | undefined
  /** The enabled alias of this name. */
  alias(name: string): RoutedAlias | undefined
  /** The channels that list a model and are not disabled by hand, highest priority first. */
  listed(model: string): readonly C[]
  /** Undefined: no enabled or gateway-disabled channel lists it, which is 404 `model_not_found`. */
  resolve(requestedModel: string): RoutedModel<C> | undefined
  /** The route to one channel, also to a disabled one. Undefined: the channel does not list the model. */
  resolveOn(requestedModel: string, channelId: number): RoutedModel<C> | undefined
  /** What `/v1/models` lists, by name. */
  servedModels(): readonly string[]
  /** The vendors behind a name, the preferred one first. */
  ownerTypes(requestedModel: string): readonly number[]
}

/** The names that a requested name passes through, and the channels that its aliases allow. */
export type AliasPath = {
  readonly names: readonly string[]
  readonly model: string
  readonly filter: ChannelFilter
}
type ChannelFilter = ReadonlySet<number> | undefined

/**
 * The routing table. It is immutable and rebuilt when a channel or alias changes. One pass indexes the channels by the
 * model names they list; the route of a name is computed at its first request and cached.
 */
export function createTable<C extends RoutedChannel>(
  channels: readonly C[],
  aliases: readonly RoutedAlias[],
  variants: readonly C[] = [],
): Table<C> {
  const byId = new Map([...channels, ...variants].map(channel => [healthIdOf(channel), channel]))
  const listings = listingsOf(channels)
  const enabledAliases = new Map(
    aliases.filter(alias => alias.status === ALIAS_STATUS.enabled).map(alias => [alias.name, alias]),
  )
  const aliasOf = (name: string) => enabledAliases.get(name)
  const backings = new Map<string, Backing<C>>()
  const routes = new Map<string, RoutedModel<C>>()
  let served: readonly string[] | undefined

  function backingOf(model: string, listed: readonly C[], filter: ChannelFilter): Backing<C> {
    if (filter !== undefined) return backing(listed.filter(channel => filter.has(channel.id)))
    const cached = backings.get(model)
    if (cached !== undefined) return cached
    const created = backing(listed)
    backings.set(model, created)
    return created
  }

  function find(requestedModel: string): RoutedModel<C> | undefined {
    const way = followAliases(aliasOf, requestedModel)
    const listed = way && listings.get(way.model)
    if (!listed) return undefined
    const { names, model, filter } = way
    const { tiers, pools, disabled } = backingOf(model, listed, filter)
    if (tiers.length === 0 && disabled.length === 0) return undefined
    return { requestedModel, model, names, tiers, pools, disabled, isListed: tiers.length > 0 }
  }

  function resolve(requestedModel: string): RoutedModel<C> | undefined {
    const cached = routes.get(requestedModel)
    if (cached !== undefined) return cached
    const route = find(requestedModel)
    // Unknown names are not cached: clients can invent any number of them.
    if (route !== undefined) routes.set(requestedModel, route)
    return route
  }

  function resolveOn(requestedModel: string, channelId: number): RoutedModel<C> | undefined {
    const way = followAliases(aliasOf, requestedModel)
    const channel = byId.get(channelId)
    if (!way || !channel?.models.includes(way.model)) return undefined
    const only = isEnabled(channel) ? channel : { ...channel, status: CHANNEL_STATUS.enabled }
    const { names, model } = way
    return { requestedModel, model, names, ...backing([only]), isListed: true, isForced: true }
  }

  function isServed(name: string): boolean {
    if (enabledAliases.has(name)) return resolve(name)?.isListed ?? false
    return listings.get(name)?.some(isEnabled) ?? false
  }

  return {
    channels,
    channel: id => byId.get(id),
    alias: aliasOf,
    listed: model => listings.get(model) ?? NONE,
    resolve,
    resolveOn,
    servedModels: () => {
      served ??= [...new Set([...listings.keys(), ...enabledAliases.keys()])].filter(isServed).sort()
      return served
    },
    ownerTypes: requestedModel => {
      const tiers = resolve(requestedModel)?.tiers ?? []
      return [...new Set(tiers.flatMap(tier => tier.channels.map(channel => channel.type)))]
    },
  }
}

const NONE: readonly never[] = []

const isEnabled = (channel: RoutedChannel) => channel.status === CHANNEL_STATUS.enabled

/** The channels by the model names they list, highest priority first. Sorted once, so that no list is sorted again. */
function listingsOf<C extends RoutedChannel>(channels: readonly C[]): ReadonlyMap<string, readonly C[]> {
  const listings = new Map<string, C[]>()
  for (const channel of channels.toSorted((a, b) => b.priority - a.priority || a.id - b.id)) {
    if (channel.status === CHANNEL_STATUS.disabled) continue
    for (const model of channel.models) {
      const listed = listings.get(model)
      if (listed === undefined) listings.set(model, [channel])
      // A channel may list a model twice; it counts once.
      else if (listed.at(-1) !== channel) listed.push(channel)
    }
  }
  return listings
}

/** Undefined for a loop or a chain that is too long. Saving refuses both, but a stored one must not hang a request. */
export function followAliases(
  aliasOf: (name: string) => RoutedAlias | undefined,
  requestedModel: string,
): AliasPath | undefined {
  const names = [requestedModel]
  let model = requestedModel
  let filter: ChannelFilter
  for (let alias = aliasOf(requestedModel); alias !== undefined; alias = aliasOf(model)) {
    if (names.length > MAX_CHAIN) return undefined
    model = alias.target
    names.push(model)
    filter = narrow(filter, alias.channelIds)
  }
  return { names, model, filter }
}

function narrow(filter: ChannelFilter, channelIds: RoutedAlias['channelIds']): ChannelFilter {
  if (channelIds === null || channelIds.length === 0) return filter
  return new Set(filter === undefined ? channelIds : channelIds.filter(id => filter.has(id)))
}

/** `listed` must be sorted by priority. */
export function backing<C extends RoutedChannel>(listed: readonly C[]): Backing<C> {
  const tiers: { priority: number; channels: C[] }[] = []
  for (const channel of listed.filter(isEnabled)) {
    const last = tiers.at(-1)
    if (last?.priority === channel.priority) last.channels.push(channel)
    else tiers.push({ priority: channel.priority, channels: [channel] })
  }
  return {
    tiers,
    pools: tiers.flatMap(({ channels }, tier) => poolsOf(channels, tier)),
    disabled: listed.filter(channel => !isEnabled(channel)),
  }
}

/** Channels of weight 0 share equally, and only after all weighted channels of their tier. */
function poolsOf<C extends RoutedChannel>(channels: readonly C[], tier: number): readonly TierPool<C>[] {
  const weighted = channels.filter(channel => channel.weight > 0)
  const weightless = channels.filter(channel => !(channel.weight > 0))
  return [poolOf(weighted, channel => channel.weight), poolOf(weightless, () => 1)]
    .filter(pool => pool.members.length > 0)
    .map(pool => ({ ...pool, tier }))
}

/**
 * The model name that is sent upstream. A mapping is keyed by the names its channel lists, so it applies to the route's
 * model and never to an alias. Mappings may be chained.
 */
export function sentModel({ mapping }: Pick<RoutedChannel, 'mapping'>, model: string): string {
  const next = mapped(mapping, model)
  if (next === undefined || mapped(mapping, next) === undefined) return next ?? model
  // Saving refuses loops, but a stored one must not hang a request.
  const visited = new Set([model])
  let name = model
  for (let to: string | undefined = next; to !== undefined && !visited.has(to); to = mapped(mapping, to)) {
    visited.add(to)
    name = to
  }
  return name
}

/** Model names come from requests, so inherited properties such as `constructor` must not match. */
const mapped = (mapping: RoutedChannel['mapping'], name: string) =>
  Object.hasOwn(mapping, name) ? mapping[name] : undefined
