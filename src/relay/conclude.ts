import type { CanaryMark } from '../domain/canary.ts'
import type { Refusal } from '../domain/errors.ts'
import { usdText } from '../domain/money.ts'
import { ROLE } from '../domain/role.ts'
import { allTokens, EMPTY, type Usage, withToolCalls } from '../domain/usage.ts'
import { headerText } from '../domain/warning.ts'
import type { Release, Ticket } from '../routing/rates.ts'
import { answerError, answerRefusal, commonHeaders } from './answer/answer.ts'
import { recordingMeter } from './answer/answer-recorder.ts'
import { BYTES_TYPE, JSON_TYPE, mediaType } from './answer/content-type.ts'
import { type Delivery, deliver } from './answer/deliver.ts'
import { streamHeaders } from './answer/early-headers.ts'
import { endBuffered } from './answer/end-buffered.ts'
import {
  COMMON_ERROR_FORMAT,
  chatErrorOf,
  type ErrorFormat,
  type RelayError,
  relayErrorOf,
} from './answer/error-format.ts'
import { maskingMeter } from './answer/masking-meter.ts'
import { type UpstreamError, upstreamError, upstreamErrorEvent } from './answer/upstream-error.ts'
import type { RelayOutcome } from './attempt.ts'
import { capturingMeter } from './bodies/capturing-meter.ts'
import { addRateHeaders, rateHeaders } from './callers/admit.ts'
import type { RelayChannel } from './catalog/catalog.ts'
import { settleGatewayFailure } from './gateway-failure.ts'
import { disconnected } from './intake/body.ts'
import type { StoredAnswer } from './intake/repeat.ts'
import type { StreamMeter } from './operations/channel-request.ts'
import { limitedByDelivery, limitsOf, plausibleUsage, type UsageLimits } from './price/plausible-usage.ts'
import { type CountedOutput, countUsage, reportedUsage } from './price/usage-count.ts'
import type { RelayRequest, Trace } from './request.ts'
import { errorCodeOf, settle } from './settlement.ts'
import { createStreamBudget } from './stream-budget.ts'
import { streamFault, streamHealth } from './stream-outcome.ts'
import { upstreamIdOf } from './upstream/provider-report.ts'

const errorFormatOf = ({ spec }: RelayRequest): ErrorFormat => spec.errorFormat ?? COMMON_ERROR_FORMAT

const canaryHeader = (canaries: readonly CanaryMark[]) =>
  canaries.map(({ id, side }) => `${id}=${side}`).join(', ')

/** The headers of every successful answer, except those of its content. */
export function answerHeaders(
  { requestId, admitted, spec, route }: RelayRequest,
  { channel }: OutcomeOf<'stream'>['step'],
  warnings: readonly string[] = [],
): Record<string, string> {
  const headers = commonHeaders(requestId, spec.errorFormat)
  addRateHeaders(headers, admitted.remaining())
  if (admitted.caller.role >= ROLE.admin) {
    headers['x-sluice-channel'] = String(channel.id)
    if (route.canaries !== undefined) headers['x-sluice-canary'] = canaryHeader(route.canaries)
  }
  if (warnings.length > 0) headers['x-sluice-warnings'] = headerText(warnings.join('; '))
  return headers
}

/** Ends a request: settles it in the ledger first, then completes the response to the client. */
export function conclude(request: RelayRequest, outcome: RelayOutcome, callerTicket: Ticket): Promise<void> {
  switch (outcome.kind) {
    case 'buffered':
      return concludeBuffered(request, outcome, callerTicket)
    case 'stream':
      return concludeStream(request, outcome, callerTicket)
    case 'disconnected':
      return concludeDisconnected(request, outcome, callerTicket)
    default:
      return concludeFailed(request, outcome, callerTicket)
  }
}

/** Settles a request that `conclude` could not settle because the gateway failed, and ends its attempt if that still runs. */
export function settleUnconcluded(
  request: RelayRequest,
  outcome: RelayOutcome,
  error: unknown,
): Promise<void> {
  const { trace, outgoing } = outcome
  const isAnswered = outcome.kind === 'buffered' || outcome.kind === 'stream'
  if (isAnswered) {
    outcome.exchange.abort()
    outcome.health.end({ kind: 'client' })
    void outcome.ticket.end(0)
  }
  const channel = isAnswered ? outcome.step.channel : outcome.channel
  const isUnresolved = isAnswered || (outcome.kind === 'disconnected' && isOwed(trace))
  return settleGatewayFailure(request, { trace, channel, outgoing, isUnresolved }, error)
}

/** Counts the usage of a request if the provider reports none. */
const countFor = (
  { deps, work, priced }: RelayRequest,
  channel: RelayChannel,
  output: CountedOutput & { readonly measured?: Usage | undefined },
) => countUsage(deps.counter, work, output, tokens => priced.counted(channel, tokens, output.measured))

type OutcomeOf<Kind extends RelayOutcome['kind']> = Extract<RelayOutcome, { kind: Kind }>

/** Releases the slots within the limits of channel, token and user. The last byte of the answer waits for that. */
function endTickets(
  answered: Pick<OutcomeOf<'stream'>, 'ticket'>,
  callerTicket: Ticket,
  tokens: number,
): Release {
  const channel = answered.ticket.end(tokens)
  const caller = callerTicket.end(tokens)
  return channel && caller ? Promise.all([channel, caller]).then(() => {}) : (channel ?? caller)
}

/** The provider has answered, so the request is settled and the client gets its answer even if this fails. */
async function storeForRetry(
  { storeAnswer, deps, requestId }: RelayRequest,
  answer: StoredAnswer | undefined,
): Promise<void> {
  try {
    await storeAnswer?.(answer)
  } catch (error) {
    deps.onFailure(error as Error, requestId)
  }
}

async function concludeBuffered(
  request: RelayRequest,
  answered: OutcomeOf<'buffered'>,
  callerTicket: Ticket,
): Promise<void> {
  const { response, deps } = request
  const { step, answer, reading, trace, outgoing } = answered
  const { usage: countedOrReported, by } =
    reading.usage === undefined
      ? await countFor(request, step.channel, {
          bytes: reading.outputBytes,
          sample: reading.sample,
          measured: reading.measured,
        })
      : { usage: reading.usage, by: undefined }
  const rawUsage = withToolCalls(countedOrReported, reading.toolCalls)
  const limits = limitsOf(request, step.channel, answered.overriddenRequest)
  const { vendorCost } = reading
  const plausible = plausibleUsage(
    rawUsage,
    limitedByDelivery(limits, rawUsage, step.sentModel, answer.body.length),
  )
  const usage = vendorCost === undefined ? plausible : { ...plausible, vendorCost }
  answered.health.end({ kind: 'ok' })
  const release = endTickets(answered, callerTicket, allTokens(usage))
  const encoding = typeof reading.answer === 'function' ? reading.answer(usage) : reading.answer
  const encoded = encoding instanceof Promise ? await encoding : encoding
  const body = step.channel.secrets.maskAnswer(encoded?.body ?? answer.body, step.key.value)
  const contentType = encoded?.contentType ?? JSON_TYPE
  if (request.storeAnswer) await storeForRetry(request, { status: answer.status, contentType, body })
  const { paid } = await settle(request, {
    channel: step.channel,
    outgoing,
    usage,
    reported: plausible === rawUsage ? undefined : rawUsage,
    source: reading.usage ? 'provider' : 'counted',
    countedBy: by,
    trace,
    firstByteMs: deps.nowMs() - request.startedMs,
    upstreamRequestId: upstreamIdOf(answer.headers, step.channel),
    imageProperties: reading.imageProperties,
  })
  if (release) await release
  if (response.destroyed) return
  // If the provider answered a stream request without a stream, the stream's headers may have been sent early.
  if (!response.headersSent) {
    const headers = answerHeaders(request, answered.step, answered.outgoing.warnings)
    headers['content-type'] = contentType
    headers['content-length'] = String(body.length)
    headers['x-sluice-cost'] = usdText(paid)
    response.writeHead(answer.status, headers)
  }
  request.report.capture?.answerType(contentType)
  endBuffered(response, body, request.report.capture)
}

async function concludeStream(
  request: RelayRequest,
  answered: OutcomeOf<'stream'>,
  callerTicket: Ticket,
): Promise<void> {
  const { response, deps, startedMs } = request
  const { step, streamed, trace, earlyHeaders, outgoing } = answered
  const { channel } = step
  const firstByteMs = deps.nowMs() - startedMs
  const { meter, recorder } = metersOf(request, answered)
  const limits = limitsOf(request, channel, answered.overriddenRequest)
  earlyHeaders.close()
  if (!earlyHeaders.isOpen()) response.writeHead(streamed.status, headersOf(request, answered))
  const delivery = await deliver({
    response,
    flow: streamed.flow,
    meter,
    keepAlive: isFile(request, answered) ? undefined : errorFormatOf(request).keepAlive,
    memory: deps.memory,
    abort: () => answered.exchange.abort(),
    nowMs: deps.nowMs,
    onProgress: createStreamBudget(request, { channel, outgoing, meter, limits }),
  })
  if (delivery.ending === 'disconnected') {
    // The client disconnected. Its next request must not wait until the tokens of this one are counted.
    answered.ticket.leave()
    callerTicket.leave()
  }
  const { rawUsage, usage, by } = await streamUsage(request, answered, { meter, limits })
  const fault = streamFault(delivery, meter)
  answered.health.end(streamHealth(delivery, fault))
  const release = endTickets(answered, callerTicket, allTokens(usage))
  // An incomplete stream is not stored, so that a retry runs the request again.
  if (recorder && fault === undefined && delivery.ending === 'end')
    await storeForRetry(request, {
      status: streamed.status,
      contentType: headersOf(request, answered)['content-type'] ?? '',
      body: recorder.recording(),
    })
  await settle(request, {
    channel,
    outgoing,
    usage,
    reported: usage === rawUsage ? undefined : rawUsage,
    source: by === undefined ? 'provider' : 'counted',
    countedBy: by,
    trace,
    firstByteMs,
    upstreamRequestId: upstreamIdOf(streamed.headers, channel),
    imageProperties: meter.imageProperties?.(),
    error: fault?.message,
    errorCode: fault?.code,
  })
  if (release) await release
  endStream(request, answered, { meter, delivery, fault, usage })
}

/** The stream's meter with secrets masked, and recorded if the answer is stored for an `Idempotency-Key`. */
function metersOf(request: RelayRequest, answered: OutcomeOf<'stream'>) {
  const { step, streamed, outgoing } = answered
  const length = isFile(request, answered) ? Number(streamed.headers['content-length']) : Number.NaN
  const plain = outgoing.meter(Number.isSafeInteger(length) ? length : undefined)
  const masked = maskingMeter(plain, step.channel.secrets.headerNeedles())
  const recorder = request.storeAnswer && recordingMeter(masked)
  const meter = recorder ?? masked
  const { capture } = request.report
  if (!capture) return { meter, recorder }
  capture.answerType(headersOf(request, answered)['content-type'] ?? '')
  return { meter: capturingMeter(meter, capture), recorder }
}

type Metered = { readonly meter: StreamMeter; readonly limits: UsageLimits }

/**
 * `rawUsage`: as the provider reported or the gateway counted it, with the tool calls in the stream. `usage`: its plausible part, which
 * is charged.
 */
async function streamUsage(
  request: RelayRequest,
  { step: { channel, sentModel } }: OutcomeOf<'stream'>,
  { meter, limits }: Metered,
) {
  const { textBytes, reasoningBytes, toolCalls } = meter.reading
  const bytes = textBytes + reasoningBytes
  const { usage: countedOrReported, by } =
    (await reportedUsage(request.deps.counter, meter)) ??
    (await countFor(request, channel, { bytes, sample: meter.sample, measured: meter.measured?.() }))
  const rawUsage = withToolCalls(countedOrReported, toolCalls)
  const usage = plausibleUsage(rawUsage, limitedByDelivery(limits, rawUsage, sentModel, bytes))
  return { rawUsage, usage, by }
}

type StreamEnd = {
  readonly meter: StreamMeter
  readonly delivery: Delivery
  readonly fault: Refusal | undefined
  readonly usage: Usage
}

/** Sends the last bytes of a stream, or the error that ends it. */
function endStream(
  request: RelayRequest,
  answered: OutcomeOf<'stream'>,
  { meter, delivery, fault, usage }: StreamEnd,
): void {
  const { response } = request
  if (response.destroyed) return
  if (fault === undefined) {
    const closing = meter.closing(usage)
    for (const bytes of closing.slice(0, -1)) response.write(bytes)
    // With the end of the response in the same write.
    response.end(closing.at(-1))
    return
  }
  // A file cannot carry an error, so the gateway closes the connection.
  if (isFile(request, answered)) {
    response.destroy()
    return
  }
  // The provider's own error if it reported one, unless the gateway stopped the stream; else the gateway's.
  const { error } = meter.reading
  const isReported = error !== undefined && delivery.ending !== 'stopped'
  const relayError = isReported ? upstreamErrorEvent(error, answered.step.channel) : relayErrorOf(fault)
  if (meter.endWithError) {
    for (const bytes of meter.endWithError(chatErrorOf(relayError))) response.write(bytes)
    response.end()
    return
  }
  endWithEvent(request, relayError)
}

/** Ends a stream with an error as its last event. */
function endWithEvent(request: RelayRequest, error: RelayError): void {
  const { response, deps, report } = request
  const event = errorFormatOf(request).lastEvent(error, deps.readContext.idsAndClock)
  report.capture?.answer(Buffer.from(event as string))
  response.end(event)
}

/** Whether the answer is a file that is forwarded byte by byte, not a stream of events. */
const isFile = ({ work }: RelayRequest, { streamed }: OutcomeOf<'stream'>): boolean =>
  work.passes?.(String(streamed.headers['content-type'] ?? '')) ?? false

/** A provider may compress a file although the gateway requested identity, so its encoding is forwarded too. */
const FILE_HEADERS = ['content-encoding', 'content-length', 'content-range', 'accept-ranges'] as const

function headersOf(request: RelayRequest, answered: OutcomeOf<'stream'>): Record<string, string> {
  const common = answerHeaders(request, answered.step, answered.outgoing.warnings)
  if (!isFile(request, answered))
    return { ...streamHeaders(request.requestId, request.spec.errorFormat), ...common }
  const { headers } = answered.streamed
  const forwarded = FILE_HEADERS.flatMap(name =>
    typeof headers[name] === 'string' ? [[name, headers[name]]] : [],
  )
  const type = mediaType(headers['content-type']) ?? request.work.fileType ?? BYTES_TYPE
  return { ...common, ...Object.fromEntries(forwarded), 'content-type': type }
}

/** Attempts that failed before the client disconnected, or were not sent, cost nothing. */
const isOwed = ({ attempts }: Trace): boolean => attempts.at(-1)?.status === 'left'

/**
 * Nothing was delivered. If the last attempt was sent, the provider processed its input, so the user pays for that
 * (docs/reference/money.md: Who pays).
 */
async function concludeDisconnected(
  request: RelayRequest,
  { channel, outgoing, trace }: OutcomeOf<'disconnected'>,
  callerTicket: Ticket,
): Promise<void> {
  callerTicket.leave()
  if (trace.attempts.length === 0) throw disconnected()
  if (!isOwed(trace)) {
    await settle(request, { channel, outgoing, usage: EMPTY, source: 'zero', trace })
    return
  }
  const { usage, by } = await countFor(request, channel, { bytes: 0 })
  // Charged tokens count against the rate limits too.
  callerTicket.end(allTokens(usage))
  await settle(request, { channel, outgoing, usage, source: 'input_only', countedBy: by, trace })
}

async function concludeFailed(
  request: RelayRequest,
  failed: OutcomeOf<'failed'>,
  callerTicket: Ticket,
): Promise<void> {
  const { response, requestId } = request
  const format = errorFormatOf(request)
  const { channel, outgoing, refusal, answer, trace, earlyHeaders } = failed
  earlyHeaders.close()
  const forwarded = answer && upstreamError(answer, channel, failed.error)
  const error = forwarded?.message ?? refusal.message
  // The same request would get the same 4xx again. A failure may be temporary and is not stored.
  const isFinal = forwarded !== undefined && forwarded.status < 500
  if (request.storeAnswer) await storeForRetry(request, isFinal ? storedError(forwarded) : undefined)
  const errorCode = errorCodeOf(refusal, forwarded)
  const release = callerTicket.end(0)
  const upstreamRequestId = trace.attempts.at(-1)?.provider?.request_id ?? ''
  await settle(request, {
    channel,
    outgoing,
    usage: EMPTY,
    source: 'zero',
    trace,
    error,
    errorCode,
    upstreamRequestId,
  })
  if (release) await release
  if (response.destroyed) return
  if (earlyHeaders.isOpen()) {
    endWithEvent(request, forwarded ?? relayErrorOf(refusal))
    return
  }
  const options = {
    errorFormat: format,
    requestId,
    headers: rateHeaders(request.admitted.remaining()),
    capture: request.report.capture,
  }
  if (forwarded) answerError(response, forwarded, options)
  else answerRefusal(response, refusal, options)
}

/** All operations that support `Idempotency-Key` use the common error format, so errors are stored in that format. */
const storedError = ({ status, body }: UpstreamError) => ({
  status,
  contentType: 'application/json; charset=utf-8',
  body: Buffer.from(JSON.stringify(body)),
})
