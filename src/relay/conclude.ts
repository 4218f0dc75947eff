import type { ServerResponse } from 'node:http'
import { Refusal } from '../domain/errors.ts'
import { usdText } from '../domain/money.ts'
import type { When } from '../domain/price.ts'
import { ROLE } from '../domain/role.ts'
import type { UnresolvedCharge, UsageLog, VideoNote } from '../domain/settled.ts'
import {
  allCounts,
  allTokens,
  type Counts,
  EMPTY,
  type Inference,
  type ToolCalls,
  totalInput,
  totalOutput,
  type Usage,
  withToolCalls,
} from '../domain/usage.ts'
import type { AttemptOutcome } from '../routing/health.ts'
import type { Release, Ticket } from '../routing/rates.ts'
import { answerError, answerRefusal, commonHeaders } from './answer/answer.ts'
import { recordingMeter } from './answer/answer-recorder.ts'
import { BYTES_TYPE, JSON_TYPE, mediaType } from './answer/content-type.ts'
import { type Delivery, deliver } from './answer/deliver.ts'
import { streamHeaders } from './answer/early-headers.ts'
import { COMMON_ERROR_FORMAT, chatErrorOf, relayErrorOf } from './answer/error-format.ts'
import { maskingMeter } from './answer/masking-meter.ts'
import { type UpstreamError, upstreamError, upstreamErrorEvent } from './answer/upstream-error.ts'
import type { AnsweredAttempt } from './attempt.ts'
import { rateHeaders } from './callers/admit.ts'
import type { CatalogPrice, RelayChannel } from './catalog/catalog.ts'
import type { ChannelRequest, StreamMeter } from './operations/channel-request.ts'
import { excessSuspense, limitedByDelivery, limitsOf, plausibleUsage } from './price/plausible-usage.ts'
import type { RequestPrice } from './price/price.ts'
import {
  type CountedOutput,
  type CountedUsage,
  countUsage,
  reportedUsage,
  usageSoFar,
} from './price/usage-count.ts'
import type { RelayRequest, Trace } from './request.ts'

/** Where the counts of a settlement come from. */
type Source = 'provider' | 'counted' | 'input_only' | 'zero'

const NO_DOUBTS: readonly UnresolvedCharge[] = []

export type Settling = {
  readonly channel: RelayChannel
  readonly usage: Usage
  /** The usage that the provider reported, where a part of it is impossible and not in `usage`. */
  readonly reported?: Usage | undefined
  /** Calls of the provider's own tools that the answer shows, where `usage` may be silent about them. */
  readonly toolCalls?: ToolCalls | undefined
  /** The request as the channel was sent it, where there is one. */
  readonly outgoing?: Pick<ChannelRequest, 'services' | 'tools'> | undefined
  /** What a picture turned out to be. */
  readonly made?: When
  readonly source: Source
  /** How the tokens were counted, where the provider did not tell them. */
  readonly countedBy?: CountedUsage['by'] | undefined
  readonly trace: Trace
  readonly error?: string
  /** What requests that failed are told apart by: our code, or `upstream_400` where the provider's own words were passed on. */
  readonly errorCode?: string | undefined
  readonly doubts?: readonly UnresolvedCharge[]
  readonly firstByteMs?: number
  readonly upstreamRequestId?: string
  readonly video?: VideoNote
}

/** Attempts that were cut or timed out may have been billed by their providers (docs/reference/money.md: Suspense). */
function doubtsOf({ priced }: RelayRequest, { failures }: Trace): readonly UnresolvedCharge[] {
  if (failures.length === 0) return NO_DOUBTS
  return failures
    .filter(({ isInDoubt }) => isInDoubt)
    .map(({ channel, message, estimate = priced.estimate(channel) }) => ({
      channelId: channel.id,
      amount: estimate,
      reason: message,
    }))
    .filter(({ amount }) => amount > 0)
}

export const errorCodeOf = (refusal: Refusal, passed: UpstreamError | undefined) =>
  passed ? `upstream_${passed.status}` : refusal.code

/** The usage that is charged: with the calls of tools that the answer shows, and those that no answer reports. */
function usedIn({ priced }: RelayRequest, { channel, usage, toolCalls, source, outgoing }: Settling): Usage {
  const shown = withToolCalls(usage, toolCalls)
  return source === 'zero' ? shown : withToolCalls(shown, priced.unreported(channel, outgoing?.tools))
}

/** What the price depends on beside usage: as the request was sent, and as a picture turned out. */
const servedIn = ({ work }: RelayRequest, { outgoing, made }: Settling): When | undefined => {
  const services = outgoing?.services ?? work.asked
  return made ? { ...services, ...made } : services
}

/** Writes the one end of a request into the books. Once it resolves, the last byte may go out. */
export async function settle(
  errand: RelayRequest,
  settling: Settling,
): Promise<{ paid: number; cost: number }> {
  const { hold, priced, work, deps, startedMs, admitted } = errand
  const { channel, trace, error } = settling
  const usage = usedIn(errand, settling)
  const served = servedIn(errand, settling)
  const cost = priced.costOf(channel, usage, served)
  const price = priced.billedBy(channel, usage, served)
  const counts = allCounts(usage)
  const log: UsageLog = {
    tokenName: admitted.caller.tokenName,
    model: work.model,
    promptTokens: totalInput(counts),
    completionTokens: totalOutput(counts),
    useTimeMs: deps.nowMs() - startedMs,
    isStream: work.isStream,
    address: admitted.address,
    isError: error !== undefined,
    content: error ?? '',
    upstreamRequestId: settling.upstreamRequestId ?? '',
    other: otherOf(errand, { ...settling, usage }, price),
  }
  const { reported } = settling
  const excess = reported
    ? excessSuspense(channel.id, cost, () =>
        priced.costOf(channel, usedIn(errand, { ...settling, usage: reported }), served),
      )
    : NO_DOUBTS
  const further = settling.doubts ?? NO_DOUBTS
  const failed = doubtsOf(errand, trace)
  const doubts = excess.length + further.length > 0 ? [...failed, ...further, ...excess] : failed
  const { video } = settling
  const paid = await hold.settle({ channelId: channel.id, cost, doubts, log, ...(video && { video }) })
  return { paid, cost }
}

/** What is worth knowing of a request beyond its columns; what there was none of is left out. */
function otherOf(
  errand: RelayRequest,
  settling: Settling,
  price: CatalogPrice | undefined,
): Record<string, unknown> {
  const { route, work, priced } = errand
  const { channel, source, countedBy, firstByteMs, usage, reported, trace, video, errorCode } = settling
  const other: Record<string, unknown> = { source }
  if (countedBy !== undefined) other.counted_by = countedBy
  if (firstByteMs !== undefined) other.frt = firstByteMs
  if (errorCode !== undefined) other.error_code = errorCode
  if (price?.version === 'unpriced') other.unpriced = true
  else {
    other.price = price?.version
    other.priced_as = price?.model
    // What the price is chosen or multiplied by beside tokens, so that the lines of the cost can be told later.
    if (price?.price.variants) other.priced_for = priced.pricedFor(channel, servedIn(errand, settling))
    if (price?.price.rates.per_call !== undefined && usage.calls > 0) other.calls = usage.calls
  }
  if (route.model !== work.model) other.upstream_model_name = route.model
  if (video) other.video_id = video.id
  for (const [name, count] of DETAILS) if (count(usage) > 0) other[name] = count(usage)
  if (reported) other.reported = reportedFields(reported)
  if (usage.inferences) other.inferences = usage.inferences.map(each => inferenceFields(each, priced))
  if (usage.vendorCost !== undefined) other.vendor_cost = usage.vendorCost
  // One good attempt is told by the row's own columns; why a single one failed is told nowhere else.
  if (trace.attempts.length > 1 || trace.failures.length > 0 || trace.passedOver.length > 0)
    other.trace = { attempts: trace.attempts, passed_over: trace.passedOver.slice(0, 20) }
  return other
}

/** What the provider reported in place of what was charged. */
function reportedFields(reported: Usage): Record<string, number> {
  const { seconds, searches, ...tokens } = allCounts(reported)
  return {
    prompt_tokens: totalInput({ ...tokens, seconds, searches }),
    completion_tokens: totalOutput({ ...tokens, seconds, searches }),
    ...(seconds > 0 && { seconds }),
    ...(searches > 0 && { searches }),
  }
}

/** A further inference as the row keeps it: its tokens, and the price of the model that ran it. */
function inferenceFields({ counts, model }: Inference, priced: RequestPrice): Record<string, unknown> {
  const price = model === undefined ? undefined : priced.priceOfModel(model)
  const fields: Record<string, unknown> = {
    prompt_tokens: totalInput(counts),
    completion_tokens: totalOutput(counts),
    ...(model !== undefined && { model }),
    ...(price && { price: price.version, priced_as: price.model }),
  }
  for (const [name, count] of DETAILS) if (count(counts) > 0) fields[name] = count(counts)
  return fields
}

/** What is counted beyond plain tokens. */
const DETAILS: readonly (readonly [name: string, count: (usage: Counts) => number])[] = [
  ['cache_tokens', usage => usage.cachedInput],
  ['cache_write_tokens', usage => usage.cacheWrite + usage.cacheWrite1h],
  ['cache_write_1h_tokens', usage => usage.cacheWrite1h],
  ['reasoning_tokens', usage => usage.reasoning],
  ['audio_input', usage => usage.audioInput],
  ['audio_output', usage => usage.audioOutput],
  ['image', usage => usage.imageInput],
  ['image_output', usage => usage.imageOutput],
  ['characters', usage => usage.characters],
  ['seconds', usage => usage.seconds],
  ['images', usage => usage.images],
  ['searches', usage => usage.searches],
  ['file_searches', usage => usage.fileSearches],
  ['code_interpreter_calls', usage => usage.codeInterpreterCalls],
  ['image_generation_calls', usage => usage.imageGenerationCalls],
]

/** The provider's own id of a request. */
export const idOf = (headers: Readonly<Record<string, unknown>>, { secrets }: RelayChannel) => {
  const id = headers['x-request-id'] ?? headers['request-id']
  return typeof id === 'string' ? secrets.scrub(id).slice(0, 128) : ''
}

/** What every good answer carries besides its own. */
export function answerHeaders(
  { requestId, admitted, spec }: RelayRequest,
  { channel }: Of<'stream'>['step'],
  warnings: readonly string[] = [],
): Record<string, string> {
  const headers = Object.assign(commonHeaders(requestId, spec.voice), rateHeaders(admitted.remaining()))
  if (admitted.caller.role >= ROLE.admin) headers['x-sluice-channel'] = String(channel.id)
  if (warnings.length > 0) headers['x-sluice-warnings'] = warnings.join('; ')
  return headers
}

/** Ends a request, however it went: in the books first, then to the client. */
export async function conclude(
  errand: RelayRequest,
  answered: AnsweredAttempt,
  ticket: Ticket,
): Promise<void> {
  switch (answered.kind) {
    case 'whole':
      return concludeWhole(errand, answered, ticket)
    case 'stream':
      return concludeStream(errand, answered, ticket)
    case 'left':
      return concludeLeft(errand, answered, ticket)
    default:
      return concludeFailed(errand, answered, ticket)
  }
}

/** What a request used, where its provider does not say. */
const countFor = (
  { deps, work, priced }: RelayRequest,
  channel: RelayChannel,
  output: CountedOutput & { readonly measured?: Usage | undefined },
) => countUsage(deps.counter, work, output, tokens => priced.counted(channel, tokens, output.measured))

type Of<Kind extends AnsweredAttempt['kind']> = Extract<AnsweredAttempt, { kind: Kind }>

/** Gives back the places of the channel, the token and the user; the last byte waits until both are free. */
function endTickets(answered: Pick<Of<'stream'>, 'ticket'>, ticket: Ticket, tokens: number): Release {
  const channel = answered.ticket.end(tokens)
  const caller = ticket.end(tokens)
  return channel && caller ? Promise.all([channel, caller]).then(() => {}) : (channel ?? caller)
}

async function concludeWhole(errand: RelayRequest, answered: Of<'whole'>, ticket: Ticket): Promise<void> {
  const { response, deps } = errand
  const { step, answer, reading, trace, outgoing } = answered
  const counted =
    reading.usage === undefined
      ? await countFor(errand, step.channel, {
          bytes: reading.outputBytes,
          sample: reading.sample,
          measured: reading.measured,
        })
      : { usage: reading.usage, by: undefined }
  const limits = limitsOf(errand, step.channel, answered.changed)
  const { vendorCost } = reading
  const possible = plausibleUsage(
    counted.usage,
    limitedByDelivery(limits, counted.usage, step.sentModel, answer.body.length),
  )
  const usage = vendorCost === undefined ? possible : { ...possible, vendorCost }
  answered.health.end({ kind: 'ok' })
  const release = endTickets(answered, ticket, allTokens(usage))
  const writing = typeof reading.answer === 'function' ? reading.answer(usage) : reading.answer
  const written = writing instanceof Promise ? await writing : writing
  const body = step.channel.secrets.maskAnswer(written?.body ?? answer.body, step.key.value)
  const contentType = written?.contentType ?? JSON_TYPE
  await errand.keep?.({ status: answer.status, contentType, body })
  const { paid } = await settle(errand, {
    channel: step.channel,
    outgoing,
    usage,
    reported: possible === counted.usage ? undefined : counted.usage,
    toolCalls: reading.toolCalls,
    source: reading.usage ? 'provider' : 'counted',
    countedBy: counted.by,
    trace,
    firstByteMs: deps.nowMs() - errand.startedMs,
    upstreamRequestId: idOf(answer.headers, step.channel),
    ...(reading.made && { made: reading.made }),
  })
  if (release) await release
  if (response.destroyed) return
  // The head of a stream may be out already, where an answer in one piece is taken for one.
  if (!response.headersSent) {
    const headers = answerHeaders(errand, step, outgoing.warnings)
    headers['content-type'] = contentType
    headers['content-length'] = String(body.length)
    headers['x-sluice-cost'] = usdText(paid)
    response.writeHead(answer.status, headers)
  }
  endWhole(response, body)
}

/** Above this a copy costs more than what it saves. */
const SMALL_BYTES = 65_536

/** A small body leaves as one text with its head, a character a byte: one plain write instead of a gathered one. */
function endWhole(response: ServerResponse, body: Buffer): void {
  if (body.length <= SMALL_BYTES) {
    response.end(body.toString('latin1'), 'latin1')
    return
  }
  response.end(body)
  closeStalled(response)
}

/** A client that takes nothing of a large answer for so long is gone. */
const STALL_MS = 60_000
const LOOK_MS = 20_000

function closeStalled(response: ServerResponse): void {
  const { socket } = response
  if (!socket) return
  let stalledMs = 0
  // What is in the system's own buffer counts as taken: what is left here is `writableLength`.
  const bytesTaken = () => socket.bytesWritten - socket.writableLength
  let lastBytes = bytesTaken()
  const watch = setInterval(() => {
    stalledMs = bytesTaken() === lastBytes ? stalledMs + LOOK_MS : 0
    lastBytes = bytesTaken()
    if (stalledMs >= STALL_MS) socket.destroy()
  }, LOOK_MS)
  response.once('close', () => clearInterval(watch))
}

async function concludeStream(errand: RelayRequest, answered: Of<'stream'>, ticket: Ticket): Promise<void> {
  const { response, deps, hold, priced, startedMs } = errand
  const { voice = COMMON_ERROR_FORMAT } = errand.spec
  const { step, streamed, trace, early, exchange, outgoing } = answered
  const { channel } = step
  const firstByteMs = deps.nowMs() - startedMs
  const isSilent = isFile(errand, answered)
  const length = isSilent ? Number(streamed.headers['content-length']) : Number.NaN
  const plain = outgoing.meter(Number.isSafeInteger(length) ? length : undefined)
  const clean = maskingMeter(plain, channel.secrets.headerNeedles())
  const kept = errand.keep && recordingMeter(clean)
  const meter = kept ?? clean
  early.close()
  if (!early.isOpen()) response.writeHead(streamed.status, headOf(errand, answered))

  const limits = limitsOf(errand, channel, answered.changed)
  let isExtending = false
  let isRefused = false
  const delivery = await deliver({
    response,
    flow: streamed.flow,
    meter,
    keepAlive: isSilent ? undefined : voice.keepAlive,
    memory: deps.memory,
    abort: exchange.abort,
    nowMs: deps.nowMs,
    onProgress() {
      const used = usageSoFar(meter.reading, tokens => priced.counted(channel, tokens, meter.measured?.()))
      const shown = withToolCalls(plausibleUsage(used, limits), meter.reading.toolCalls)
      const soFar = priced.costOf(channel, shown, outgoing.services)
      hold.progress(soFar)
      // The hold is an upper bound of what was asked for; a provider that goes on beyond it needs more.
      if (soFar > hold.held() && !isExtending) {
        isExtending = true
        hold
          .extend(soFar)
          // Twice as much saves asking again soon; what is owed already is enough to go on.
          .then(ok => ok || hold.extend(soFar - hold.held()))
          .then(ok => {
            isRefused = !ok
          })
          .catch(() => {
            isRefused = true
          })
          .finally(() => {
            isExtending = false
          })
      }
      return !isRefused
    },
  })

  if (delivery.ending === 'left') {
    // Its next request must not wait for a count of this one.
    answered.ticket.leave()
    ticket.leave()
  }
  const { textBytes, reasoningBytes } = meter.reading
  const bytes = textBytes + reasoningBytes
  const { usage: reported, by } =
    (await reportedUsage(deps.counter, meter)) ??
    (await countFor(errand, channel, { bytes, sample: meter.sample, measured: meter.measured?.() }))
  const usage = plausibleUsage(reported, limitedByDelivery(limits, reported, step.sentModel, bytes))
  const fault = streamFault(delivery, meter)
  const tokens = allTokens(usage)
  answered.health.end(healthOf(delivery, fault))
  const release = endTickets(answered, ticket, tokens)
  // What did not reach its end is made anew for whoever asks again.
  if (kept && fault === undefined && delivery.ending === 'end')
    await errand.keep?.({
      status: streamed.status,
      contentType: headOf(errand, answered)['content-type'] ?? '',
      body: kept.remembered(),
    })
  await settle(errand, {
    channel,
    outgoing,
    usage,
    reported: usage === reported ? undefined : reported,
    toolCalls: meter.reading.toolCalls,
    source: by === undefined ? 'provider' : 'counted',
    countedBy: by,
    trace,
    firstByteMs,
    upstreamRequestId: idOf(streamed.headers, channel),
    ...(meter.made && { made: meter.made() }),
    ...(fault === undefined ? {} : { error: fault.message, errorCode: fault.code }),
  })
  if (release) await release
  if (response.destroyed) return
  if (fault === undefined) {
    for (const bytes of meter.closing(usage)) response.write(bytes)
    response.end()
    return
  }
  // A file has no place for words: it ends where it was cut, and the broken connection says so.
  if (isSilent) {
    response.destroy()
    return
  }
  // The provider's own words, if it spoke of an error itself; ours, if the stream just stopped.
  const { error } = meter.reading
  const isTold = error !== undefined && delivery.ending !== 'stopped'
  const trouble = isTold ? upstreamErrorEvent(error, channel) : relayErrorOf(fault)
  for (const bytes of meter.breakOff?.(chatErrorOf(trouble)) ?? []) response.write(bytes)
  response.end(meter.breakOff ? undefined : voice.lastEvent(trouble, deps.desk.ambience))
}

/** Whether the answer is a file that passes byte by byte, rather than a stream of events. */
const isFile = ({ work }: RelayRequest, { streamed }: Of<'stream'>): boolean =>
  work.passes?.(String(streamed.headers['content-type'] ?? '')) ?? false

/** Packed although nobody asked for that: then the client must know. */
const FILE_HEADERS = ['content-encoding', 'content-length', 'content-range', 'accept-ranges'] as const

function headOf(errand: RelayRequest, answered: Of<'stream'>): Record<string, string> {
  const common = answerHeaders(errand, answered.step, answered.outgoing.warnings)
  if (!isFile(errand, answered)) return { ...streamHeaders(errand.requestId, errand.spec.voice), ...common }
  const given = answered.streamed.headers
  const told = FILE_HEADERS.flatMap(name => (typeof given[name] === 'string' ? [[name, given[name]]] : []))
  const type = mediaType(given['content-type']) ?? errand.work.fileType ?? BYTES_TYPE
  return { ...common, ...Object.fromEntries(told), 'content-type': type }
}

function streamFault(delivery: Delivery, meter: StreamMeter): Refusal | undefined {
  if (delivery.ending === 'left') return undefined
  if (delivery.ending === 'stopped')
    return new Refusal('insufficient_quota', 'the quota was used up in the middle of the answer')
  if (meter.ending() === 'error')
    return new Refusal('upstream_error', 'the provider reported an error inside its answer')
  if (meter.ending() === 'complete') return undefined
  if (delivery.ending === 'cut' && delivery.failure.reason === 'timeout')
    return new Refusal('upstream_timeout', 'the provider fell silent in the middle of its answer')
  return new Refusal('upstream_error', 'the provider broke off before its answer was finished')
}

function healthOf({ ending }: Delivery, fault: Refusal | undefined): AttemptOutcome {
  if (ending === 'left' || ending === 'stopped') return { kind: 'client' }
  return fault === undefined ? { kind: 'ok' } : { kind: '5xx' }
}

/** Nothing was delivered, but the provider has worked on the input (docs/reference/money.md: Who pays). */
async function concludeLeft(
  errand: RelayRequest,
  { channel, outgoing, trace }: Of<'left'>,
  ticket: Ticket,
): Promise<void> {
  ticket.leave()
  const last = trace.attempts.at(-1)
  if (last === undefined) return
  // Attempts that had failed before the client left cost it nothing.
  const isOwed = last.status === 'left'
  if (!isOwed) {
    await settle(errand, { channel, outgoing, usage: EMPTY, source: 'zero', trace })
    return
  }
  const { usage, by } = await countFor(errand, channel, { bytes: 0 })
  // What is paid for counts under the limits too: whoever always leaves is no exception.
  ticket.end(allTokens(usage))
  await settle(errand, { channel, outgoing, usage, source: 'input_only', countedBy: by, trace })
}

async function concludeFailed(errand: RelayRequest, answered: Of<'failed'>, ticket: Ticket): Promise<void> {
  const { response, requestId, deps } = errand
  const { voice = COMMON_ERROR_FORMAT } = errand.spec
  const { channel, outgoing, refusal, answer, trace, early } = answered
  early.close()
  const passed = answer && upstreamError(answer, channel, answered.error)
  const error = passed?.message ?? refusal.message
  // What a provider has judged itself it would judge the same again; a failure may pass.
  const isFinal = passed !== undefined && passed.status < 500
  await errand.keep?.(isFinal ? keptError(passed) : undefined)
  const errorCode = errorCodeOf(refusal, passed)
  const release = ticket.end(0)
  await settle(errand, { channel, outgoing, usage: EMPTY, source: 'zero', trace, error, errorCode })
  if (release) await release
  if (response.destroyed) return
  if (early.isOpen()) {
    response.end(voice.lastEvent(passed ?? relayErrorOf(refusal), deps.desk.ambience))
    return
  }
  const told = { voice, requestId, headers: rateHeaders(errand.admitted.remaining()) }
  if (passed) answerError(response, passed, told)
  else answerRefusal(response, refusal, told)
}

/** Only operations that speak in the common shape are kept. */
const keptError = ({ status, body }: UpstreamError) => ({
  status,
  contentType: 'application/json; charset=utf-8',
  body: Buffer.from(JSON.stringify(body)),
})
