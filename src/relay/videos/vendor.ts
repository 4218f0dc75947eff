import { readChannelNetwork } from '../../http/channel-network.ts'
import type { Keyring } from '../../identity/keyring.ts'
import type { VideoCall, VideoDialect } from '../../media/video.ts'
import { type FormatName, formatsFor, type Provider, providerOf } from '../../providers/index.ts'
import type { RoutedKey } from '../../routing/table.ts'
import { JsonError } from '../../wire/json.ts'
import { parsedOrNothing } from '../../wire/json-bounds.ts'
import { parseInSlices } from '../../wire/json-slices.ts'
import { encodeMultipart } from '../../wire/multipart.ts'
import { addressAt, type RelayChannel, signing } from '../catalog/catalog.ts'
import { type ChannelSecrets, createChannelSecrets } from '../catalog/channel-secrets.ts'
import type { BufferedResponse, Timeouts, UpstreamExchange } from '../upstream/exchange.ts'
import type { KeyExchange } from '../upstream/key-exchange.ts'
import type { Upstream } from '../upstream/upstream.ts'

/** The channel settings with which a job was sent. Polls use the same ones, even if the channel changes. */
export type VendorAccess = {
  readonly provider: Provider
  readonly baseUrl: string
  readonly setting: Readonly<Record<string, unknown>>
  readonly headerOverride: { readonly fixed: Readonly<Record<string, string>> }
  readonly key: string
  readonly timeouts: Timeouts
}

export const accessOf = (channel: RelayChannel, key: RoutedKey): VendorAccess => ({
  provider: channel.provider,
  baseUrl: channel.baseUrl,
  setting: channel.setting,
  // Polls have no client, so overrides that depend on client headers do not apply.
  headerOverride: { fixed: channel.headerOverride.fixed },
  key: key.value,
  timeouts: channel.timeouts,
})

/** The secrets that must not appear in answers of the provider. */
export const secretsOf = ({ key, headerOverride, setting }: VendorAccess): ChannelSecrets =>
  createChannelSecrets({ keys: [key], headers: headerOverride.fixed, fields: [setting] })

const place = (id: string) => ({ table: 'videos', row: id, field: 'access' })

export const sealAccess = (keyring: Keyring, id: string, { provider, ...access }: VendorAccess): string =>
  keyring.seal(JSON.stringify({ ...access, type: provider.type }), place(id))

/** Undefined: it is no longer stored, or its vendor is no longer supported. */
export function openAccess(keyring: Keyring, id: string, sealed: string): VendorAccess | undefined {
  if (sealed === '') return undefined
  const { type, ...access } = JSON.parse(keyring.open(sealed, place(id)))
  const provider = providerOf(type)
  return provider && { ...access, provider }
}

/** The format of video jobs for this model; undefined: the vendor does not support them. */
export function videoFormat(provider: Provider, model: string): FormatName | undefined {
  const dialects = provider.dialects?.videos
  return formatsFor(provider, 'videos', model).find(format => dialects?.[format] !== undefined)
}

/** The dialect of video jobs for this model; undefined: the vendor does not support them. */
export function videoDialect(provider: Provider, model: string): VideoDialect | undefined {
  const format = videoFormat(provider, model)
  return format && provider.dialects?.videos?.[format]
}

/** The request could not be sent, or the vendor answered with an error. */
export class VendorError extends Error {
  /** 0: no response. */
  readonly status: number
  constructor(message: string, status = 0) {
    super(message)
    this.name = 'VendorError'
    this.status = status
  }
}

type Sending = {
  readonly access: VendorAccess
  readonly model: string
  readonly headers?: Readonly<Record<string, string>>
  passes?(contentType: string): boolean
  readonly timeouts?: Timeouts
}

/** Short, because a poll holds the lease of its job. */
const POLL_TIMEOUTS = { firstByteMs: 20_000, idleMs: 20_000, totalMs: 30_000 } as const

/** Undefined for a body that is not JSON, or too large for a response about a job. */
export const parsedBody = ({ body }: BufferedResponse): unknown => parsedOrNothing(body.toString('utf8'))

function bodyOf({ json, parts }: VideoCall) {
  if (json)
    return { body: Buffer.from(JSON.stringify(json)), headers: { 'content-type': 'application/json' } }
  if (!parts) return { headers: {} }
  const form = encodeMultipart(parts)
  return { body: form, headers: { 'content-type': form.contentType } }
}

type Deps = { readonly upstream: Upstream; readonly keys: KeyExchange; nowMs(): number }

/** Calls vendors about jobs. */
export function createVendor({ upstream, keys, nowMs }: Deps) {
  /** Throws VendorError if the channel has no address for the call, or its key yields no credential. */
  async function send(call: VideoCall, sending: Sending): Promise<UpstreamExchange> {
    const { access, model, passes, timeouts = access.timeouts } = sending
    const address = addressAt(access, call.path, access.key, { model })
    if (!address) throw new VendorError('The channel has no URL for this call.')
    const network = readChannelNetwork(access.setting)
    const exchanged = await keys.headersFor(access.provider, access.key, network).catch(error => {
      throw new VendorError(`The key could not be exchanged for an access token: ${(error as Error).name}`)
    })
    const { url } = address
    for (const [name, value] of Object.entries(call.query ?? {})) url.searchParams.set(name, value)
    const { body, headers } = bodyOf(call)
    return upstream.exchange({
      method: call.method,
      url,
      headers: {
        accept: passes ? '*/*' : 'application/json',
        'accept-encoding': 'identity',
        'user-agent': 'sluice',
        ...headers,
        ...address.headers,
        ...exchanged,
        ...call.headers,
        ...sending.headers,
      },
      ...(body && { body }),
      sign: address.sign && signing(address, { nowMs, keys }, network),
      timeouts,
      network,
      isStream: false,
      ...(passes && { passes }),
    })
  }

  /** The parsed body of a successful response. */
  async function ask(call: VideoCall, access: VendorAccess, model: string): Promise<unknown> {
    const timeouts = { ...POLL_TIMEOUTS, connectMs: access.timeouts.connectMs }
    const outcome = await (await send(call, { access, model, timeouts })).outcome
    if (outcome.kind !== 'buffered') {
      const what = outcome.kind === 'failure' ? `${outcome.reason}: ${outcome.message}` : 'a stream'
      throw new VendorError(`The provider did not respond (${what}).`)
    }
    if (outcome.status < 200 || outcome.status >= 300)
      throw new VendorError(`The provider returned status ${outcome.status}.`, outcome.status)
    // The body may contain an entire video.
    return parseInSlices(outcome.body).catch(error => {
      throw error instanceof JsonError
        ? new VendorError(`The response of the provider ${error.message}.`, outcome.status)
        : error
    })
  }

  /** The headers that carry a job's key, for a URL that the vendor returned. */
  async function credentials({
    provider,
    key,
    setting,
  }: VendorAccess): Promise<Readonly<Record<string, string>>> {
    const exchanged = await keys.headersFor(provider, key, readChannelNetwork(setting))
    return provider.exchange?.takes(key) === true ? exchanged : (provider.auth?.(key) ?? {})
  }

  /** The origin that an administrator chose for the calls of a job. */
  const originOf = (access: VendorAccess, model: string): string | undefined =>
    addressAt(access, '/', access.key, { model })?.url.origin

  return { send, ask, credentials, originOf }
}

export type Vendor = ReturnType<typeof createVendor>
