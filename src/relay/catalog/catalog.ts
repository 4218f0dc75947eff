import { isDeepStrictEqual } from 'node:util'
import type { Operation } from '../../domain/operation.ts'
import type { Price } from '../../domain/price.ts'
import type { Settings } from '../../domain/setting.ts'
import type { ChannelNetwork } from '../../http/channel-network.ts'
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
import { type CanaryRouter, createCanaryRouter, type RunningCanaries } from '../../routing/canary.ts'
import {
  createTable,
  type RoutedAlias,
  type RoutedChannel,
  type RoutedKey,
  type Table,
} from '../../routing/table.ts'
import type { Timeouts, UpstreamRequest } from '../upstream/exchange.ts'
import type { KeyExchange } from '../upstream/key-exchange.ts'
import type { ChannelSecrets } from './channel-secrets.ts'
import type { HeaderOverride } from './header-override.ts'

/** A channel with everything an attempt needs, prepared once when it is loaded. */
export type RelayChannel = RoutedChannel & {
  readonly provider: Provider
  readonly baseUrl: string
  readonly setting: Readonly<Record<string, unknown>>
  readonly timeouts: Timeouts
  /** Undefined: as the gateway connects everywhere. */
  readonly network: ChannelNetwork | undefined
  readonly override: Override
  readonly headerOverride: HeaderOverride
  /** Why some operations of its overrides are disabled. */
  readonly disabledOverrides: readonly string[]
  /** Replaces the provider's error statuses. */
  readonly statusMapping: ReadonlyMap<number, number>
  readonly testModel: string
  /** Secrets that are removed from every answer of the provider. */
  readonly secrets: ChannelSecrets
}

/** The price of a model, with the version that requests are billed at. */
export type CatalogPrice = { readonly price: Price; readonly model: string; readonly version: string }

type PriceVersion = { readonly version: number; readonly price: Price }

/** The administrators' prices: those in force, by model, and the upcoming ones in order of time. */
export type PriceBook = {
  readonly inForce: ReadonlyMap<string, PriceVersion>
  readonly upcoming: readonly (PriceVersion & { readonly model: string; readonly effectiveTime: number })[]
}

/** A price that is computed beside the real one and never charged. Times are Unix seconds; `until` is exclusive. */
export type ShadowPrice = {
  readonly id: number
  readonly price: Price
  readonly from: number
  readonly until: number | undefined
}

/** The canaries that are running: those of channels and aliases, and the shadow prices by model. */
export type CatalogCanaries = RunningCanaries<RelayChannel> & {
  readonly shadows: ReadonlyMap<string, ShadowPrice>
}

export type CatalogSource = {
  channels(): Promise<RelayChannel[]>
  /** The channels with these ids that still exist. */
  channelsOf(ids: readonly number[]): Promise<RelayChannel[]>
  aliases(): Promise<RoutedAlias[]>
  prices(): Promise<PriceBook>
  canaries(): Promise<CatalogCanaries>
  settings(): Promise<Settings>
  nowMs(): number
  shippedPrice(model: string): Price | undefined
}

/** All data that routing and billing depend on, in memory. A refresh replaces it atomically. */
export async function openCatalog(source: CatalogSource) {
  let channels = new Map((await source.channels()).map(channel => [channel.id, channel]))
  let aliases = await source.aliases()
  const prices = createPriceTable(source.nowMs)
  prices.load(await source.prices())
  let settings = await source.settings()
  let canaries = await source.canaries()
  let { table, router } = build()

  /** Refreshes are serialized: of two concurrent reads, the older one could finish last. */
  let turn: Promise<void> = Promise.resolve()
  const inTurn = (refresh: () => Promise<void>): Promise<void> => {
    const done = turn.then(refresh)
    turn = done.catch(() => {})
    return done
  }

  function build(): { table: Table<RelayChannel>; router: CanaryRouter<RelayChannel> | undefined } {
    const variants = canaries.channels.map(({ variant }) => variant)
    const built = createTable([...channels.values()], aliases, variants)
    const isRunning = canaries.channels.length + canaries.aliases.length > 0
    return { table: built, router: isRunning ? createCanaryRouter(built, canaries) : undefined }
  }

  /** A canary tries a change of the channel or alias as it is now, so both are read together. */
  const rebuild = async () => {
    canaries = await source.canaries()
    ;({ table, router } = build())
  }

  return {
    table: () => table,
    /** Routes requests while canaries run; undefined: none runs. */
    canaries: () => router,
    /** The shadow prices by model; undefined: there is none. */
    shadows: () => (canaries.shadows.size === 0 ? undefined : canaries.shadows),
    settings: () => settings,
    /** The price of the first of these names that has one. */
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
        await rebuild()
      }),
    refreshAllChannels: (): Promise<void> =>
      inTurn(async () => {
        channels = new Map((await source.channels()).map(channel => [channel.id, channel]))
        await rebuild()
      }),
    refreshAliases: (): Promise<void> =>
      inTurn(async () => {
        aliases = await source.aliases()
        await rebuild()
      }),
    refreshCanaries: (): Promise<void> => inTurn(rebuild),
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

/** The prices in force. An upcoming version takes effect on time without another read of the store. */
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

/** Whether two versions of a channel send requests to the same address in the same way; keys and weights may differ. */
export const hasSameUpstream = (one: RelayChannel, other: RelayChannel): boolean =>
  one.type === other.type &&
  one.baseUrl === other.baseUrl &&
  isDeepStrictEqual(one.setting, other.setting) &&
  isDeepStrictEqual(one.mapping, other.mapping) &&
  isDeepStrictEqual(one.headerOverride.fixed, other.headerOverride.fixed)

export type Catalog = Awaited<ReturnType<typeof openCatalog>>

/** The address of a channel for one operation, with its headers. */
export type ChannelAddress = {
  readonly url: URL
  readonly headers: Readonly<Record<string, string>>
  /** For a key that is not sent itself: the signer of requests, or the key to exchange for a credential. */
  readonly sign?: Signer
  readonly traded?: { readonly provider: Provider; readonly key: string }
}

type AddressRequest = {
  readonly operation: Operation
  readonly format: FormatName
  readonly isStream: boolean
  readonly model: string
  readonly key: RoutedKey
  /** See OperationSpec. */
  readonly sibling?: string | undefined
  /** Values of this request only: an address that has one of them is not cached. */
  readonly values?: Values | undefined
}

/** The addresses of a channel by name, and the last one: most requests of a channel are alike. */
type ChannelAddresses = {
  readonly byName: Map<string, ChannelAddress>
  last: { readonly request: AddressRequest; readonly address: ChannelAddress } | undefined
}

const hasSameAddress = (one: AddressRequest, other: AddressRequest): boolean =>
  one.operation === other.operation &&
  one.sibling === other.sibling &&
  one.format === other.format &&
  one.isStream === other.isStream &&
  one.key.index === other.key.index &&
  one.model === other.model

/** Whether the address, or what signs a request to it, depends on values of the request. */
function hasOneOf(
  values: Values,
  { provider, baseUrl }: RelayChannel,
  { operation, format, isStream }: AddressRequest,
): boolean {
  const path = provider[operation]?.[format]
  if (path === undefined || provider.exchange !== undefined) return true
  const template = `${baseUrl} ${provider.baseUrl} ${pathFor(path, isStream)}`
  return Object.keys(values).some(name => template.includes(`${name}}`))
}

/** Caches the addresses of a channel by key and model. An edited channel is a new object and has no cached addresses. */
export function createAddressBook() {
  const books = new WeakMap<RelayChannel, ChannelAddresses>()

  function addressesOf(channel: RelayChannel): ChannelAddresses {
    const existing = books.get(channel)
    if (existing) return existing
    const created: ChannelAddresses = { byName: new Map(), last: undefined }
    books.set(channel, created)
    return created
  }

  return function addressOf(channel: RelayChannel, request: AddressRequest): ChannelAddress | undefined {
    if (request.values && hasOneOf(request.values, channel, request)) return makeAddress(channel, request)
    const addresses = addressesOf(channel)
    const { last } = addresses
    if (last !== undefined && hasSameAddress(last.request, request)) return last.address
    const { operation, format, isStream, model, key, sibling } = request
    const name = `${operation} ${sibling} ${format} ${isStream} ${key.index} ${model}`
    const address = addresses.byName.get(name) ?? makeAddress(channel, request)
    if (address === undefined) return undefined
    addresses.byName.set(name, address)
    addresses.last = { request, address }
    return address
  }
}

export type AddressBook = ReturnType<typeof createAddressBook>

function makeAddress(
  channel: RelayChannel,
  { operation, format, isStream, model, key, sibling, values }: AddressRequest,
): ChannelAddress | undefined {
  const path = channel.provider[operation]?.[format]
  if (path === undefined) return undefined
  const plain = pathFor(path, isStream)
  // In other formats the body names the operation.
  const fullPath = format === 'openai' ? siblingPath(plain, sibling) : plain
  return addressAt(channel, fullPath, key.value, { model, ...values })
}

/** The part of a channel that its addresses depend on. */
type AddressSource = Pick<RelayChannel, 'provider' | 'baseUrl' | 'setting'> & {
  readonly headerOverride: Pick<HeaderOverride, 'fixed'>
}

/** The URL of a vendor's path, with the headers of one key; undefined if a placeholder has no value. */
export function addressAt(
  { provider, baseUrl, setting, headerOverride }: AddressSource,
  path: string,
  key: string,
  extraValues: Values,
): ChannelAddress | undefined {
  const values: Values = { ...fieldValues(provider, key, setting), ...extraValues }
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

type SigningDeps = { nowMs(): number; readonly keys: Pick<KeyExchange, 'headersFor'> }

/** The signer or credential for a request to this address; undefined if the key is sent as a header. */
export function signing(
  { sign, traded }: ChannelAddress,
  { nowMs, keys }: SigningDeps,
  network: ChannelNetwork | undefined,
): UpstreamRequest['sign'] {
  if (sign) return request => sign({ ...request, at: new Date(nowMs()) })
  return traded && (() => keys.headersFor(traded.provider, traded.key, network))
}

/** The same path with another last segment. The query is unchanged. */
const siblingPath = (path: string, sibling: string | undefined) =>
  sibling === undefined ? path : path.replace(/[^/?]+(?=\?|$)/, sibling)

/** The part of an operation that decides the format for a channel. */
export type FormatChoice = {
  readonly operation: Operation
  readonly format: FormatName
  formatFor?(provider: Provider, model: string): FormatName | undefined
}

/** The format of this operation on a channel; undefined: the channel does not support the operation. */
export function formatOn(
  { provider }: RelayChannel,
  spec: FormatChoice,
  model: string,
): FormatName | undefined {
  if (spec.formatFor) return spec.formatFor(provider, model)
  return formatsFor(provider, spec.operation, model).includes(spec.format) ? spec.format : undefined
}

/** Enabled channels with disabled override operations, and the reasons. */
export const listDisabledOverrides = (channels: readonly RelayChannel[]) =>
  channels
    .filter(({ status, disabledOverrides }) => status === 1 && disabledOverrides.length > 0)
    .map(({ id, name, disabledOverrides }) => ({ id, name, reasons: disabledOverrides }))
