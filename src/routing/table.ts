import { ALIAS_STATUS, MAX_CHAIN } from '../domain/alias.ts'
import { CHANNEL_STATUS } from '../domain/channel.ts'
import { KEY_STATUS } from '../domain/channel-key.ts'
import { type Pool, poolOf } from './draw.ts'
import type { RateLimits } from './meter.ts'

export type RoutedKey = { readonly index: number; readonly value: string; readonly status: 1 | 2 | 3 }

/** A channel without keys is used with the empty one. */
export const NO_KEY: RoutedKey = { index: 0, value: '', status: KEY_STATUS.enabled }

/** What routing knows of a channel; callers carry more. */
export type RoutedChannel = {
  readonly id: number
  readonly name: string
  readonly type: number
  readonly models: readonly string[]
  readonly mapping: Readonly<Record<string, string>>
  readonly priority: number
  readonly weight: number
  readonly status: 1 | 2 | 3
  /** None: the vendor asks for no key. */
  readonly keys: readonly RoutedKey[]
  readonly limits: RateLimits
  readonly autoBan: boolean
}

export type RoutedAlias = {
  readonly name: string
  readonly target: string
  /** Null or empty: any channel. */
  readonly channelIds: readonly number[] | null
  readonly status: 1 | 2
}

export type PriorityTier<C> = { readonly priority: number; readonly channels: readonly C[] }

/** Channels that are drawn from together; `tier` is the place among the route's tiers. */
export type TierPool<C> = Pool<C> & { readonly tier: number }

/** Who can take a model. */
type Backing<C> = {
  /** Enabled channels, the highest priority first. */
  readonly tiers: readonly PriorityTier<C>[]
  /** The same channels in the order in which they are drawn. */
  readonly pools: readonly TierPool<C>[]
  /** Disabled by the gateway: they take nothing, but the model is not unknown (503 and not 404). */
  readonly disabled: readonly C[]
}

export type RoutedModel<C> = Backing<C> & {
  readonly asked: string
  /** The name that the channels list: the last target of the aliases, or the asked name itself. */
  readonly model: string
  /** The requested name, then each alias target (docs/reference/money.md: Which price applies). */
  readonly names: readonly string[]
  /** Told by `/v1/models`: an enabled channel stands behind it. */
  readonly isListed: boolean
}

export type Table<C> = {
  readonly channels: readonly C[]
  channel(id: number): C | undefined
  /** Undefined: no enabled or gateway-disabled channel lists it, which is 404 `model_not_found`. */
  resolve(asked: string): RoutedModel<C> | undefined
  /** What `/v1/models` lists, by name. */
  served(): readonly string[]
  /** The vendors behind a name, the preferred one first. */
  ownerTypes(asked: string): readonly number[]
}

/** Where a name leads: through these names to the last, on any channel or only on some. */
type Way = { readonly names: readonly string[]; readonly model: string; readonly only: Only }
type Only = ReadonlySet<number> | undefined

/**
 * A table is built whole when a channel or alias changes, and never changes itself. One pass puts every channel under
 * the names it lists; what a single name needs beyond that is made when it is first asked for, and kept.
 */
export function createTable<C extends RoutedChannel>(
  channels: readonly C[],
  aliases: readonly RoutedAlias[],
): Table<C> {
  const byId = new Map(channels.map(channel => [channel.id, channel]))
  const listings = listingsOf(channels)
  const enabledAliases = new Map(
    aliases.filter(alias => alias.status === ALIAS_STATUS.enabled).map(alias => [alias.name, alias]),
  )
  const backings = new Map<string, Backing<C>>()
  const routes = new Map<string, RoutedModel<C>>()
  let served: readonly string[] | undefined

  function backingOf(model: string, listed: readonly C[], only: Only): Backing<C> {
    if (only !== undefined) return backing(listed.filter(channel => only.has(channel.id)))
    const known = backings.get(model)
    if (known !== undefined) return known
    const made = backing(listed)
    backings.set(model, made)
    return made
  }

  function find(asked: string): RoutedModel<C> | undefined {
    const way = wayOf(enabledAliases, asked)
    const listed = way && listings.get(way.model)
    if (!listed) return undefined
    const { names, model, only } = way
    const { tiers, pools, disabled } = backingOf(model, listed, only)
    if (tiers.length === 0 && disabled.length === 0) return undefined
    return { asked, model, names, tiers, pools, disabled, isListed: tiers.length > 0 }
  }

  function resolve(asked: string): RoutedModel<C> | undefined {
    const known = routes.get(asked)
    if (known !== undefined) return known
    const found = find(asked)
    // Names that lead nowhere are not kept: anybody can invent them.
    if (found !== undefined) routes.set(asked, found)
    return found
  }

  function isServed(name: string): boolean {
    if (enabledAliases.has(name)) return resolve(name)?.isListed ?? false
    return listings.get(name)?.some(isEnabled) ?? false
  }

  return {
    channels,
    channel: id => byId.get(id),
    resolve,
    served: () => {
      served ??= [...new Set([...listings.keys(), ...enabledAliases.keys()])].filter(isServed).sort()
      return served
    },
    ownerTypes: asked => {
      const tiers = resolve(asked)?.tiers ?? []
      return [...new Set(tiers.flatMap(tier => tier.channels.map(channel => channel.type)))]
    },
  }
}

const isEnabled = (channel: RoutedChannel) => channel.status === CHANNEL_STATUS.enabled

/** Every name with the channels that list it, highest priority first: sorted once, so that no list is sorted again. */
function listingsOf<C extends RoutedChannel>(channels: readonly C[]): ReadonlyMap<string, readonly C[]> {
  const listings = new Map<string, C[]>()
  for (const channel of channels.toSorted((a, b) => b.priority - a.priority || a.id - b.id)) {
    if (channel.status === CHANNEL_STATUS.disabled) continue
    for (const model of channel.models) {
      const listed = listings.get(model)
      if (listed === undefined) listings.set(model, [channel])
      // A channel may name a model twice, but stands for it once.
      else if (listed.at(-1) !== channel) listed.push(channel)
    }
  }
  return listings
}

/** Undefined for a loop or a chain too long: neither can be saved, and neither may keep a request. */
function wayOf(aliases: ReadonlyMap<string, RoutedAlias>, asked: string): Way | undefined {
  const names = [asked]
  let model = asked
  let only: Only
  for (let alias = aliases.get(asked); alias !== undefined; alias = aliases.get(model)) {
    if (names.length > MAX_CHAIN) return undefined
    model = alias.target
    names.push(model)
    only = narrowed(only, alias.channelIds)
  }
  return { names, model, only }
}

function narrowed(only: Only, channelIds: RoutedAlias['channelIds']): Only {
  if (channelIds === null || channelIds.length === 0) return only
  return new Set(only === undefined ? channelIds : channelIds.filter(id => only.has(id)))
}

/** Of channels that are in the order of their priorities. */
function backing<C extends RoutedChannel>(listed: readonly C[]): Backing<C> {
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

/** Weightless channels get equal shares, and only when nothing heavier is left in their tier. */
function poolsOf<C extends RoutedChannel>(channels: readonly C[], tier: number): readonly TierPool<C>[] {
  const heavy = channels.filter(channel => channel.weight > 0)
  const weightless = channels.filter(channel => !(channel.weight > 0))
  return [poolOf(heavy, channel => channel.weight), poolOf(weightless, () => 1)]
    .filter(pool => pool.members.length > 0)
    .map(pool => ({ ...pool, tier }))
}

/**
 * The name that goes upstream. A mapping speaks of the names its channel lists, so it is asked for the route's model and
 * never for an alias; it may lead on to another name of its own.
 */
export function sentModel({ mapping }: Pick<RoutedChannel, 'mapping'>, model: string): string {
  const next = mapped(mapping, model)
  if (next === undefined || mapped(mapping, next) === undefined) return next ?? model
  // Loops are refused when a mapping is saved; a walk that trusted this would never end if one were there.
  const seen = new Set([model])
  let name = model
  for (let to: string | undefined = next; to !== undefined && !seen.has(to); to = mapped(mapping, to)) {
    seen.add(to)
    name = to
  }
  return name
}

/** Names come from requests: `constructor` is one like any other. */
const mapped = (mapping: RoutedChannel['mapping'], name: string) =>
  Object.hasOwn(mapping, name) ? mapping[name] : undefined
