import type { IncomingHttpHeaders } from 'node:http'
import { Refusal } from '../../domain/errors.ts'
import { overloaded } from '../../http/budget.ts'
import { readChannelNetwork } from '../../http/channel-network.ts'
import type { RelayIncoming, RelayOutgoing } from '../../http/relay-exchange.ts'
import { RELAY_SECURITY } from '../../http/relay-headers.ts'
import type { VideoSource } from '../../media/video.ts'
import { emptyReading } from '../../metering/stream-meter.ts'
import type { VideoRow } from '../../store/engine/schema.ts'
import { BYTES_TYPE, mediaType } from '../answer/content-type.ts'
import { deliver } from '../answer/deliver.ts'
import { badParameter } from '../operations/carry.ts'
import type { StreamMeter } from '../operations/channel-request.ts'
import type { UpstreamExchange, UpstreamOutcome } from '../upstream/exchange.ts'
import type { VideoDeps } from './deps.ts'
import { openAccess, type VendorAccess, VendorError, videoDialect } from './vendor.ts'
import { resultsIn } from './video-view.ts'

const MAX_REDIRECTS = 3
const PASSED = [
  'content-length',
  'content-encoding',
  'content-range',
  'accept-ranges',
  'last-modified',
] as const
/** An HTML page or a document in place of a video means that there is none. */
const DOCUMENT = /^(?:text\/(?:html|xml)|application\/(?:[\w.+-]*\+)?(?:json|xml))\b/i
/** File extensions of common video types, for a saved file. */
const EXTENSIONS: Readonly<Record<string, string>> = {
  'video/mp4': '.mp4',
  'video/webm': '.webm',
  'video/quicktime': '.mov',
  'image/png': '.png',
  'image/jpeg': '.jpg',
  'image/webp': '.webp',
}
const REDIRECTS = new Set([301, 302, 303, 307, 308])

/** Forwards bytes without metering: the job was charged when the provider accepted it. */
const passing = (): StreamMeter => {
  let isWhole = false
  return {
    reading: emptyReading(),
    keepsNothing: true,
    isFile: true,
    push: chunk => [chunk],
    end() {
      isWhole = true
      return []
    },
    closing: () => [],
    ending: () => (isWhole ? 'complete' : 'incomplete'),
  }
}

const gone = () => new Refusal('video_expired', 'The provider no longer has the video. Create it again.')
const unreached = () =>
  new Refusal('upstream_error', 'The video could not be fetched from its provider. Try again later.')

type Fetching = {
  readonly row: VideoRow
  readonly request: RelayIncoming
  readonly response: RelayOutgoing
  /** The headers of every response of this API. */
  readonly headers: Readonly<Record<string, string>>
  /** Called before the first byte. After that nothing is thrown. */
  onStart?(): void
}

/** Streams a finished video to the client, without the provider's address and key. */
export function createContent({ keyring, vendor, upstream, memory, nowMs }: VideoDeps) {
  /** The requested result of a job; throws if there is none. */
  function requestedResult({ row, request }: Fetching) {
    if (row.status === 'failed')
      throw new Refusal('video_not_ready', 'The video job failed, so there is no video to fetch.')
    if (row.status !== 'completed')
      throw new Refusal('video_not_ready', `The video is ${row.status}. Try again later.`)
    if (row.expires_time * 1000 <= nowMs()) throw gone()
    const access = openAccess(keyring, row.id, row.access_sealed)
    const dialect = access && videoDialect(access.provider, row.sent_model)
    if (!access || !dialect) throw gone()
    const query = new URLSearchParams(request.url?.split('?')[1] ?? '')
    const index = Number(query.get('index') ?? 0)
    const result = resultsIn(row)[index]
    if (!result) throw badParameter('index', `must be from 0 to ${resultsIn(row).length - 1}`)
    const variant = query.get('variant') ?? undefined
    if (variant !== undefined && variant !== 'video' && !dialect.variants?.includes(variant))
      throw badParameter('variant', `must be one of ${(dialect.variants ?? ['video']).join(', ')}`)
    return { access, dialect, result, variant }
  }

  const rangesOf = ({ headers }: RelayIncoming): Record<string, string> => ({
    ...(headers.range !== undefined && { range: headers.range }),
    ...(typeof headers['if-range'] === 'string' && { 'if-range': headers['if-range'] }),
  })

  /** No total timeout, only an idle timeout: a video may be long and its client slow. */
  const withoutTotalTimeout = ({ timeouts }: VendorAccess) => ({ ...timeouts, totalMs: 0 })

  async function open(
    source: Exclude<VideoSource, { base64: string }>,
    access: VendorAccess,
    fetching: Fetching,
  ) {
    const { row, request } = fetching
    const ranges = rangesOf(request)
    const common = {
      access,
      model: row.sent_model,
      passes: () => true,
      timeouts: withoutTotalTimeout(access),
    }
    if ('call' in source) return vendor.send(source.call, { ...common, headers: ranges })
    const url = URL.parse(source.url)
    if (!url) throw unreached()
    return openAddress(url, source.withKey === true, { access, model: row.sent_model, ranges })
  }

  /** Opens a URL that the provider returned. A private address is allowed only on the channel's own origin. */
  async function openAddress(
    url: URL,
    isWithKey: boolean,
    { access, model, ranges }: { access: VendorAccess; model: string; ranges: Record<string, string> },
  ): Promise<UpstreamExchange> {
    if (url.protocol !== 'https:' && url.protocol !== 'http:') throw unreached()
    const keyed = isWithKey ? await vendor.credentials(access) : {}
    return upstream.exchange({
      method: 'GET',
      url,
      headers: { accept: '*/*', 'accept-encoding': 'identity', 'user-agent': 'sluice', ...keyed, ...ranges },
      timeouts: withoutTotalTimeout(access),
      isStream: false,
      passes: () => true,
      author: url.origin === vendor.originOf(access, model) ? 'administrator' : 'provider',
      network: readChannelNetwork(access.setting),
    })
  }

  /** Follows the provider's redirects. The key is sent to the provider's own origin only. */
  async function follow(
    first: UpstreamExchange,
    source: VideoSource,
    access: VendorAccess,
    fetching: Fetching,
  ) {
    let exchange = first
    // The client has disconnected.
    const onClose = () => exchange.abort()
    fetching.response.once('close', onClose)
    if (fetching.response.destroyed) onClose()
    let outcome: UpstreamOutcome = await exchange.outcome
    let from = 'url' in source ? source.url : access.baseUrl || (access.provider.baseUrl ?? '')
    const isSentWithKey = 'call' in source || (source as { withKey?: boolean }).withKey === true
    // The origin of the first URL: another host that redirects to itself still gets no key.
    const keyedOrigin = isSentWithKey ? URL.parse(from)?.origin : undefined
    for (let turn = 0; turn < MAX_REDIRECTS; turn++) {
      if (outcome.kind === 'failure' || !REDIRECTS.has(outcome.status)) break
      const { location } = outcome.headers
      exchange.abort()
      const next = typeof location === 'string' ? URL.parse(location, from) : null
      if (!next) throw unreached()
      const isKeyed = next.origin === keyedOrigin
      if (fetching.response.destroyed) break
      const ranges = rangesOf(fetching.request)
      exchange = await openAddress(next, isKeyed, { access, model: fetching.row.sent_model, ranges })
      if (fetching.response.destroyed) onClose()
      outcome = await exchange.outcome
      from = next.href
    }
    fetching.response.off('close', onClose)
    return { exchange, outcome }
  }

  /** Without a content type, a video is assumed to be MP4. */
  function typeOf({ 'content-type': type = 'video/mp4' }: IncomingHttpHeaders): string {
    return mediaType(type) ?? BYTES_TYPE
  }

  const isOpenedInBrowser = ({ request }: Fetching) => request.headers['sec-fetch-mode'] === 'navigate'

  /** The content security policy keeps browsers from playing the file, so the header makes them save it. */
  const typeHeaders = (type: string, fetching: Fetching): Record<string, string> =>
    isOpenedInBrowser(fetching)
      ? {
          'content-type': type,
          'content-disposition': `attachment; filename="${fetching.row.id}${EXTENSIONS[type] ?? ''}"`,
        }
      : { 'content-type': type }

  const passedHeaders = (headers: IncomingHttpHeaders) =>
    Object.fromEntries(
      PASSED.flatMap(name => (typeof headers[name] === 'string' ? [[name, headers[name] as string]] : [])),
    )

  function judge(outcome: UpstreamOutcome): Exclude<UpstreamOutcome, { kind: 'failure' }> {
    if (outcome.kind === 'failure' && outcome.shortage) throw overloaded(outcome.shortage)
    if (outcome.kind === 'failure')
      throw outcome.reason === 'timeout'
        ? new Refusal('upstream_timeout', 'The provider timed out. Try again later.')
        : unreached()
    if (outcome.status === 404 || outcome.status === 410) throw gone()
    if (outcome.status === 416) return outcome
    if (outcome.status < 200 || outcome.status >= 300) throw unreached()
    if (DOCUMENT.test(outcome.headers['content-type'] ?? '')) throw unreached()
    return outcome
  }

  return async function fetchContent(fetching: Fetching): Promise<void> {
    const { row, response, headers } = fetching
    const { access, dialect, result, variant } = requestedResult(fetching)
    const job = { id: result.job, kind: row.kind, model: row.sent_model }
    const ask = (call: Parameters<typeof vendor.ask>[0]) => vendor.ask(call, access, row.sent_model)
    const common = {
      ...headers,
      // A browser must not show the file of a user who has signed out, nor open it from a link on another site.
      'cache-control': isOpenedInBrowser(fetching) ? 'no-store' : 'private, max-age=3600',
      ...RELAY_SECURITY,
    }
    try {
      const source: VideoSource = dialect.source
        ? await dialect.source(job, result, ask, variant)
        : { url: result.url ?? '' }
      if ('base64' in source) {
        const bytes = Buffer.from(source.base64, 'base64')
        const type = typeOf({ 'content-type': source.type })
        fetching.onStart?.()
        response.writeHead(200, {
          ...common,
          ...typeHeaders(type, fetching),
          'content-length': String(bytes.length),
        })
        response.end(bytes)
        return
      }
      const { exchange, outcome } = await follow(
        await open(source, access, fetching),
        source,
        access,
        fetching,
      )
      if (response.destroyed) return exchange.abort()
      const answer = judge(outcome)
      const answerHeaders = {
        ...typeHeaders(typeOf(answer.headers), fetching),
        ...passedHeaders(answer.headers),
      }
      fetching.onStart?.()
      if (answer.kind === 'buffered') {
        response.writeHead(answer.status, {
          ...common,
          ...answerHeaders,
          'content-length': String(answer.body.length),
        })
        response.end(answer.body)
        return
      }
      response.writeHead(answer.status, { ...common, ...answerHeaders })
      if (fetching.request.method === 'HEAD') {
        exchange.abort()
        response.end()
        return
      }
      const { flow } = answer
      const meter = passing()
      const delivery = await deliver({
        response,
        flow,
        meter,
        keepAlive: undefined,
        memory,
        abort: () => exchange.abort(),
        nowMs,
        onProgress: () => true,
      })
      if (delivery.ending === 'end') response.end()
      else response.destroy()
    } catch (error) {
      if (!(error instanceof VendorError)) throw error
      throw error.status === 404 || error.status === 410 ? gone() : unreached()
    }
  }
}
