import { isDeepStrictEqual } from 'node:util'
import type { Operation } from '../../domain/operation.ts'
import type { Price } from '../../domain/price.ts'
import type { Settings } from '../../domain/setting.ts'
import type { Override } from '../../override/override.ts'
import {
  endpoint,
  type FormatName,
  fieldValues,
  fill,
  formatsFor,
  headersOf,
  type Provider,
  pathFor,
  type Signer,
  signerOf,
  type Values,
} from '../../providers/index.ts'
import {
  createTable,
  type RoutedAlias,
  type RoutedChannel,
  type RoutedKey,
  type Table,
} from '../../routing/table.ts'
import type { KeyExchange } from '../upstream/key-exchange.ts'
import type { Timeouts, UpstreamRequest } from '../upstream/upstream.ts'
import type { ChannelSecrets } from './channel-secrets.ts'
import type { HeaderOverride } from './header-override.ts'

/** A channel with everything an attempt needs, worked out once when it is loaded. */
export type RelayChannel = RoutedChannel & {
  readonly provider: Provider
  readonly baseUrl: string
  readonly setting: Readonly<Record<string, unknown>>
  readonly timeouts: Timeouts
  readonly override: Override
  readonly headerOverride: HeaderOverride
  /** Why operations of its overrides are disabled. */
  readonly disabledOverrides: readonly string[]
  /** What a failing status of the provider is taken for. */
  readonly statusMapping: ReadonlyMap<number, number>
  readonly testModel: string
  /** What is removed from whatever the provider says. */
  readonly secrets: ChannelSecrets
}

/** What counts for a request's price: the version it is billed at, and which one that is. */
export type CatalogPrice = { readonly price: Price; readonly model: string; readonly version: string }

type PriceVersion = { readonly version: number; readonly price: Price }

/** The administrators' prices: those in force by model, and those whose moment comes soon, in order. */
export type PriceBook = {
  readonly inForce: ReadonlyMap<string, PriceVersion>
  readonly upcoming: readonly (PriceVersion & { readonly model: string; readonly effectiveTime: number })[]
}

export type CatalogSource = {
  channels(): Promise<RelayChannel[]>
  /** Those of these ids that still exist. */
  channelsOf(ids: readonly number[]): Promise<RelayChannel[]>
  aliases(): Promise<RoutedAlias[]>
  prices(): Promise<PriceBook>
  settings(): Promise<Settings>
  nowMs(): number
  shippedPrice(model: string): Price | undefined
}

/** Everything the relay decides by, in memory, swapped whole on news. */
export async function openCatalog(source: CatalogSource) {
  let channels = new Map((await source.channels()).map(channel => [channel.id, channel]))
  let aliases = await source.aliases()
  const prices = createPriceTable(source.nowMs)
  prices.load(await source.prices())
  let settings = await source.settings()
  let table: Table<RelayChannel> = createTable([...channels.values()], aliases)

  /** One at a time: of two that read at once, the one that read first might be heard last. */
  let turn: Promise<void> = Promise.resolve()
  const inTurn = (refresh: () => Promise<void>): Promise<void> => {
    const done = turn.then(refresh)
    turn = done.catch(() => {})
    return done
  }

  const rebuild = () => {
    table = createTable([...channels.values()], aliases)
  }

  return {
    table: () => table,
    settings: () => settings,
    /** The first of these names that has a price. */
    priceOf(names: readonly string[]): CatalogPrice | undefined {
      for (const model of names) {
        const set = prices.inForce().get(model)
        if (set) return { price: set.price, model, version: `admin:${set.version}` }
        const shipped = source.shippedPrice(model)
        if (shipped) return { price: shipped, model, version: 'shipped' }
      }
      return undefined
    },
    refreshChannels: (ids: readonly number[]): Promise<void> =>
      inTurn(async () => {
        const loaded = new Map((await source.channelsOf(ids)).map(channel => [channel.id, channel]))
        const next = new Map(channels)
        for (const id of ids) {
          const channel = loaded.get(id)
          if (channel) next.set(id, channel)
          else next.delete(id)
        }
        channels = next
        rebuild()
      }),
    refreshAliases: (): Promise<void> =>
      inTurn(async () => {
        aliases = await source.aliases()
        rebuild()
      }),
    refreshPrices: (): Promise<void> =>
      inTurn(async () => {
        prices.load(await source.prices())
      }),
    refreshSettings: (): Promise<void> =>
      inTurn(async () => {
        settings = await source.settings()
      }),
    close: prices.close,
  }
}

/** The prices in force. A version whose moment comes takes over by itself, without another look at the store. */
function createPriceTable(nowMs: () => number) {
  let inForce: PriceBook['inForce'] = new Map()
  let timer: NodeJS.Timeout | undefined

  function load(book: PriceBook): void {
    clearTimeout(timer)
    const isDue = ({ effectiveTime }: { effectiveTime: number }) => effectiveTime * 1000 <= nowMs()
    const due = book.upcoming.filter(isDue)
    const upcoming = book.upcoming.filter(version => !isDue(version))
    inForce =
      due.length === 0
        ? book.inForce
        : new Map([...book.inForce, ...due.map(version => [version.model, version] as const)])
    const [next] = upcoming
    if (next === undefined) return
    timer = setTimeout(() => load({ inForce, upcoming }), next.effectiveTime * 1000 - nowMs())
    timer.unref()
  }

  return { inForce: () => inForce, load, close: () => clearTimeout(timer) }
}

/** Whether two readings of a channel are asked in the same place and manner; keys and shares aside. */
export const isAskedAlike = (one: RelayChannel, other: RelayChannel): boolean =>
  one.type === other.type &&
  one.baseUrl === other.baseUrl &&
  isDeepStrictEqual(one.setting, other.setting) &&
  isDeepStrictEqual(one.mapping, other.mapping) &&
  isDeepStrictEqual(one.headerOverride.fixed, other.headerOverride.fixed)

export type Catalog = Awaited<ReturnType<typeof openCatalog>>

/** Where and with what headers a channel is asked; undefined when it does not offer that. */
export type ChannelAddress = {
  readonly url: URL
  readonly headers: Readonly<Record<string, string>>
  /** For a key that does not travel itself: how a request is signed with it, or whose it is to be traded. */
  readonly sign?: Signer
  readonly traded?: { readonly provider: Provider; readonly key: string }
}

type Asking = {
  readonly operation: Operation
  readonly format: FormatName
  readonly isStream: boolean
  readonly model: string
  readonly key: RoutedKey
  /** See OperationSpec. */
  readonly sibling?: string | undefined
  /** Values that one request brings: such an address is not worth keeping. */
  readonly values?: Values | undefined
}

/** Addresses are worked out once for a channel, key and model; a channel that was changed is a new object here. */
export function createAddressBook() {
  const books = new WeakMap<RelayChannel, Map<string, ChannelAddress>>()
  return function addressOf(channel: RelayChannel, asking: Asking): ChannelAddress | undefined {
    const { operation, format, isStream, model, key, sibling, values } = asking
    if (values) return makeAddress(channel, asking)
    const addresses = books.get(channel) ?? new Map<string, ChannelAddress>()
    books.set(channel, addresses)
    const name = `${operation} ${sibling} ${format} ${isStream} ${key.index} ${model}`
    const cached = addresses.get(name)
    if (cached) return cached
    const address = makeAddress(channel, asking)
    if (address) addresses.set(name, address)
    return address
  }
}

export type AddressBook = ReturnType<typeof createAddressBook>

function makeAddress(
  channel: RelayChannel,
  { operation, format, isStream, model, key, sibling, values }: Asking,
): ChannelAddress | undefined {
  const path = channel.provider[operation]?.[format]
  if (path === undefined) return undefined
  const plain = pathFor(path, isStream)
  // A vendor with words of its own says in them what it is asked to do.
  const fullPath = format === 'openai' ? siblingPath(plain, sibling) : plain
  return addressAt(channel, fullPath, key.value, { model, ...values })
}

/** As much of a channel as says where and how it is asked. */
type Reach = Pick<RelayChannel, 'provider' | 'baseUrl' | 'setting'> & {
  readonly headerOverride: Pick<HeaderOverride, 'fixed'>
}

/** A path of a channel's vendor, with the headers of one of its keys; undefined when a placeholder has no value. */
export function addressAt(
  { provider, baseUrl, setting, headerOverride }: Reach,
  path: string,
  key: string,
  brought: Values,
): ChannelAddress | undefined {
  const values: Values = { ...fieldValues(provider, key, setting), ...brought }
  const address = fill(endpoint(provider, baseUrl, path), values)
  if (address === undefined || !URL.canParse(address)) return undefined
  const overrides = Object.entries(headerOverride.fixed).map(
    ([header, value]) => [header, value.replaceAll('{api_key}', () => key)] as const,
  )
  const sign = signerOf(provider, key, values)
  return {
    url: new URL(address),
    headers: { ...headersOf(provider, key, values), ...Object.fromEntries(overrides) },
    ...(sign ? { sign } : provider.exchange?.takes(key) && { traded: { provider, key } }),
  }
}

type Proving = { nowMs(): number; readonly keys: Pick<KeyExchange, 'headersFor'> }

/** What proves a request to this address as it leaves; nothing where its key travels itself. */
export function signing(
  { sign, traded }: ChannelAddress,
  { nowMs, keys }: Proving,
): Pick<UpstreamRequest, 'sign'> {
  if (sign) return { sign: request => sign({ ...request, at: new Date(nowMs()) }) }
  return traded ? { sign: () => keys.headersFor(traded.provider, traded.key) } : {}
}

/** The same path with another last part; what it is asked with stays. */
const siblingPath = (path: string, sibling: string | undefined) =>
  sibling === undefined ? path : path.replace(/[^/?]+(?=\?|$)/, sibling)

/** The part of an operation that decides in which format a channel is asked. */
export type FormatChoice = {
  readonly operation: Operation
  readonly format: FormatName
  formatFor?(provider: Provider, model: string): FormatName | undefined
}

/** The format in which a channel is asked this; undefined when it cannot be asked at all. */
export function formatOn(
  { provider }: RelayChannel,
  spec: FormatChoice,
  model: string,
): FormatName | undefined {
  if (spec.formatFor) return spec.formatFor(provider, model)
  return formatsFor(provider, spec.operation, model).includes(spec.format) ? spec.format : undefined
}

/** Enabled channels with override operations that are disabled, and why. */
export const listDisabledOverrides = (channels: readonly RelayChannel[]) =>
  channels
    .filter(({ status, disabledOverrides }) => status === 1 && disabledOverrides.length > 0)
    .map(({ id, name, disabledOverrides }) => ({ id, name, reasons: disabledOverrides }))
