import type { ChatError } from '../chat/hub/hub.ts'
import type { Refusal } from '../domain/errors.ts'
import type { RelayOutgoing } from '../http/relay-exchange.ts'
import { insufficientQuota } from '../ledger/ledger.ts'
import type { Attempt } from '../routing/health.ts'
import type { PlanStep } from '../routing/plan.ts'
import type { Ticket } from '../routing/rates.ts'
import { type EarlyHeaders, openEarlyHeaders } from './answer/early-headers.ts'
import { type AttemptSlot, Candidates } from './candidates.ts'
import type { RelayChannel } from './catalog/catalog.ts'
import { type ChannelCall, firstEventOf, type Judgement, prepareCall } from './channel-call.ts'
import { type ContentLosses, createContentLosses, isTooLossy } from './content-losses.ts'
import { createSkipReason, NOT_OFFERED } from './eligibility.ts'
import { settleGatewayFailure } from './gateway-failure.ts'
import { disconnected } from './intake/body.ts'
import type { AnswerReading, ChannelRequest } from './operations/channel-request.ts'
import type { RelayRequest, Trace } from './request.ts'
import { refusalFor } from './upstream/all-failed.ts'
import type {
  BufferedResponse,
  StreamedResponse,
  UpstreamExchange,
  UpstreamOutcome,
} from './upstream/exchange.ts'
import type { AttemptFailure } from './upstream/failure.ts'
import { lacksFormat, nextAttempt, withoutFormat } from './upstream/format-fallback.ts'
import type { Ready } from './upstream/outgoing.ts'

/** An attempt that a channel answered. */
type AnsweredAttempt = {
  readonly step: PlanStep<RelayChannel>
  readonly health: Attempt
  readonly ticket: Ticket
  readonly exchange: UpstreamExchange
  /** The request that was sent to the channel. */
  readonly outgoing: ChannelRequest
  /** As in `Ready`: the request after the channel's overrides. */
  readonly overriddenRequest: Ready['overriddenRequest']
  readonly trace: Trace
}

/** How the attempts of a request ended: a channel answered, the client disconnected, or all attempts failed. */
export type RelayOutcome =
  | (AnsweredAttempt & {
      readonly kind: 'buffered'
      readonly answer: BufferedResponse
      readonly reading: AnswerReading
    })
  | (AnsweredAttempt & {
      readonly kind: 'stream'
      readonly streamed: StreamedResponse
      readonly earlyHeaders: EarlyHeaders
    })
  /** The client disconnected before any channel answered. */
  | (LastAttempt & { readonly kind: 'disconnected'; readonly trace: Trace })
  /** No channel answered. */
  | (LastAttempt & {
      readonly kind: 'failed'
      readonly refusal: Refusal
      /** The provider's error response; undefined if the client gets the gateway's own refusal instead. */
      readonly answer: BufferedResponse | undefined
      /** The decoded error of the last attempt; undefined if there is none or its format is unknown. */
      readonly error: ChatError | undefined
      readonly trace: Trace
      readonly earlyHeaders: EarlyHeaders
    })

type LastAttempt = {
  readonly channel: RelayChannel
  /** The encoded request for the channel; undefined if the channel's overrides rejected it. */
  readonly outgoing?: ChannelRequest | undefined
}

/** The state of one request while its candidate channels are tried in turn. */
type AttemptState = {
  readonly request: RelayRequest
  readonly candidates: Candidates
  readonly earlyHeaders: EarlyHeaders
  readonly client: ClientWatch
  last: LastAttempt | undefined
  /** The last attempt was sent, and did not fail so far. */
  isUnresolved: boolean
  /** Undefined until an encoding loses content. */
  losses: ContentLosses | undefined
}

const CLIENT_DISCONNECTED = Symbol('client disconnected')
/** The channel's format would leave out a part of the request that the client does not want to lose. */
const TOO_LOSSY = Symbol('too lossy')

/** Undefined: the channel was skipped, and no attempt was made. */
type ChannelResult =
  | Extract<RelayOutcome, { kind: 'buffered' | 'stream' }>
  | AttemptFailure
  | typeof CLIENT_DISCONNECTED
  | undefined
type AttemptResult = ChannelResult | typeof TOO_LOSSY

const isFailure = (result: AttemptResult): result is AttemptFailure =>
  typeof result === 'object' && 'isRetryable' in result

const isAnswer = (result: AttemptResult): result is Extract<RelayOutcome, { kind: 'buffered' | 'stream' }> =>
  typeof result === 'object' && !isFailure(result)

/** Tries channels until one answers. A retryable failure before the first byte of an answer moves on to the next channel. */
export async function firstAnswer(request: RelayRequest): Promise<RelayOutcome> {
  const { deps, response } = request
  const candidates = candidatesOf(request)
  const earlyHeaders = openEarlyHeaders(request, deps.catalog.settings().early_headers_ms)
  const client = new ClientWatch(response)
  const state: AttemptState = {
    request,
    candidates,
    earlyHeaders,
    client,
    last: undefined,
    isUnresolved: false,
    losses: undefined,
  }
  try {
    for (let step = candidates.next(); step !== undefined; step = candidates.next()) {
      if (client.hasDisconnected()) break
      const channel = deps.formats.recall(step.channel, formatRequestOf(state, step))
      const first = await attempt(state, channel === step.channel ? step : { ...step, channel })
      // Nearly every request is answered here.
      const result = isAnswer(first) ? first : await tryVariants(state, step, { channel, result: first })
      if (result === undefined) continue
      if (result === CLIENT_DISCONNECTED) break
      if (!isFailure(result)) return result
      candidates.trace.failures.push(result)
      if (!result.isRetryable) break
    }
  } catch (error) {
    earlyHeaders.close()
    const { last, isUnresolved } = state
    if (last) await settleGatewayFailure(request, { ...last, trace: candidates.trace, isUnresolved }, error)
    throw error
  } finally {
    client.unwatch()
    if (client.hasDisconnected()) earlyHeaders.close()
  }
  const { trace } = candidates
  const { last } = state
  if (last === undefined) {
    earlyHeaders.close()
    if (client.hasDisconnected()) throw disconnected()
    request.report.passedOver = trace.passedOver
    throw (await state.losses?.refusal(trace.passedOver)) ?? candidates.noChannel()
  }
  if (client.hasDisconnected()) return { ...last, kind: 'disconnected', trace }
  return allFailed(request, last, trace, earlyHeaders)
}

function candidatesOf({ deps, spec, work, route, priced, report }: RelayRequest): Candidates {
  const skipReason = createSkipReason({
    catalog: deps.catalog,
    route,
    spec,
    work,
    prices: priced,
  })
  return new Candidates(deps, { route, skipReason, countedInput: work.countedInput, span: report.span })
}

/**
 * Detects that the client disconnected, and then aborts the running exchange. With node:http it listens to the socket: with a
 * `close` listener of the response, V8 kept a third of all requests in memory until a full garbage collection, 20 µs a request.
 */
class ClientWatch {
  readonly #response: RelayOutgoing
  #listener: (() => void) | undefined
  #isClosed: boolean
  #running: UpstreamExchange | undefined

  constructor(response: RelayOutgoing) {
    const { socket } = response.req
    this.#response = response
    this.#isClosed = socket.destroyed
    if (response.watchClient !== undefined) response.watchClient(this)
    else {
      this.#listener = () => this.onDisconnect()
      socket.on('close', this.#listener)
    }
  }

  hasDisconnected(): boolean {
    return this.#isClosed
  }

  setRunning(exchange: UpstreamExchange): void {
    this.#running = exchange
  }

  unwatch(): void {
    if (this.#listener !== undefined) this.#response.req.socket.off('close', this.#listener)
    else this.#response.watchClient?.(undefined)
  }

  onDisconnect(): void {
    this.#isClosed = true
    this.#running?.abort()
  }
}

/**
 * The outcome if no channel answered. The client gets the provider's own error response if the last failure is not
 * retryable or is a 404 (docs/reference/errors.md: Failed attempts), else the gateway's refusal.
 */
function allFailed(
  { deps }: RelayRequest,
  last: LastAttempt,
  trace: Trace,
  earlyHeaders: EarlyHeaders,
): RelayOutcome {
  const final = trace.failures.at(-1)
  const isForClient = final?.answer !== undefined && (!final.isRetryable || final.status === 404)
  return {
    ...last,
    kind: 'failed',
    refusal: refusalFor(trace.failures, {
      exposesMessages: deps.catalog.settings().expose_provider_messages,
    }),
    answer: isForClient ? final.answer : undefined,
    error: final?.error,
    trace,
    earlyHeaders,
  }
}

/**
 * Goes on with a channel whose first attempt was not answered. If the channel lacks the format or rejects a field that the
 * gateway added, retries with a variant of the channel without it. The variant that works is remembered for later requests.
 * If the format would lose a part of this request, the channel's other formats are tried, for this request only.
 */
async function tryVariants(
  state: AttemptState,
  planned: PlanStep<RelayChannel>,
  first: { readonly channel: RelayChannel; readonly result: AttemptResult },
): Promise<ChannelResult> {
  const { deps } = state.request
  const { formats } = deps
  const formatRequest = formatRequestOf(state, planned)
  let failure: AttemptFailure | undefined
  let isForThisRequest = false
  let { result } = first
  for (let channel: RelayChannel | undefined = first.channel; channel !== undefined; ) {
    if (result === undefined) return failure
    const isVariant = channel !== first.channel && !isForThisRequest
    if (result === TOO_LOSSY) {
      isForThisRequest = true
      channel = withoutFormat(channel, formatRequest)
      if (channel === undefined && failure === undefined)
        state.candidates.passOver(planned.channel, NOT_OFFERED)
    } else if (!isFailure(result)) {
      if (result !== CLIENT_DISCONNECTED && isVariant)
        formats.remember(planned.channel, formatRequest, channel)
      return result
    } else {
      const isLacking = lacksFormat(result)
      // A second "format not supported" error adds nothing: the client gets the first error.
      if (failure === undefined || !(isLacking && lacksFormat(failure))) failure = result
      if (isLacking) formats.forget(planned.channel, formatRequest)
      const next: RelayChannel | undefined = state.client.hasDisconnected()
        ? undefined
        : nextAttempt(channel, result, formatRequest)
      if (next === undefined && !isLacking && isVariant)
        formats.remember(planned.channel, formatRequest, channel)
      channel = next
    }
    if (channel !== undefined) result = await attempt(state, { ...planned, channel })
  }
  return failure
}

const formatRequestOf = (
  { request: { spec, work } }: AttemptState,
  { sentModel }: PlanStep<RelayChannel>,
) => ({
  spec,
  work,
  sentModel,
})

/** One attempt: takes a slot within the channel's limits, journals the attempt, sends the request and judges the outcome. */
async function attempt(state: AttemptState, step: PlanStep<RelayChannel>): Promise<AttemptResult> {
  const { request, candidates } = state
  const { channel, sentModel } = step
  if (state.losses?.has(channel, sentModel)) return TOO_LOSSY
  const call = prepareCall(request.deps, step, {
    spec: request.spec,
    work: request.work,
    client: request.response.req.headers,
    requestId: request.requestId,
    limits: request.priced,
    share: request.share,
    span: request.report.span,
  })
  if (!call) return undefined
  // Promises are awaited only where there are any: most requests wait for the journal and the provider, and nothing else.
  const entering = candidates.takeSlot(step)
  const slot = entering instanceof Promise ? await entering : entering
  if (!slot) return undefined
  try {
    const requesting = call.request()
    const channelRequest = requesting instanceof Promise ? await requesting : requesting
    if (isTooLossy(request, channelRequest)) {
      if (channelRequest.lostContent) {
        state.losses ??= createContentLosses(request)
        state.losses.add(channel, sentModel, channelRequest.lostContent)
      }
      await slot.end({ kind: 'client' })
      return TOO_LOSSY
    }
    state.last = { channel }
    const ready = call.encode(channelRequest)
    if ('isRetryable' in ready) {
      await slot.end(candidates.noteFailure(step, ready))
      return ready
    }
    state.last = { channel, outgoing: ready.outgoing }
    if (ready.overriddenRequest) await extendHold(request, channel, ready.overriddenRequest)
    const estimate = request.priced.estimate(channel, ready.outgoing)
    await request.hold.attempt(channel.id, estimate)
    if (state.client.hasDisconnected()) {
      void slot.end({ kind: 'client' })
      return CLIENT_DISCONNECTED
    }
    const sentCall = sendCall(state, call, ready)
    state.isUnresolved = true
    const outcome = firstEventOf(sentCall.exchange, await sentCall.exchange.outcome)
    const judging = judgeOutcome(state, step, { call, slot, ready, sentCall, estimate }, outcome)
    const result = judging instanceof Promise ? await judging : judging
    if (!isAnswer(result)) state.isUnresolved = false
    return result
  } catch (error) {
    // The gateway itself failed, for example to journal the attempt: this says nothing about the channel's health.
    await slot.end({ kind: 'client' })
    throw error
  }
}

type SentCall = {
  readonly exchange: UpstreamExchange
  readonly sentMs: number
  /** Of `performance.now()`. */
  readonly sentAt: number
}

function sendCall({ request, client }: AttemptState, call: ChannelCall, ready: Ready): SentCall {
  const { upstream, startedAt } = request.report
  const sentMs = request.deps.nowMs()
  const sentAt = performance.now()
  upstream.gatewayMs = sentAt - startedAt - upstream.ms
  // A commit of the journal is the end of a turn of the event loop.
  const exchange = call.send(ready, { isEndOfTurn: true })
  client.setRunning(exchange)
  return { exchange, sentMs, sentAt }
}

type SentAttempt = {
  readonly call: ChannelCall
  readonly slot: AttemptSlot
  readonly ready: Ready
  readonly sentCall: SentCall
  readonly estimate: number
}

/** Judges what came of an attempt. Synchronous for a stream and for a small answer. */
function judgeOutcome(
  state: AttemptState,
  step: PlanStep<RelayChannel>,
  sentAttempt: SentAttempt,
  outcome: UpstreamOutcome,
): AttemptResult | Promise<AttemptResult> {
  const { request, candidates, earlyHeaders, client } = state
  const { call, slot, ready, sentCall } = sentAttempt
  const { upstream } = request.report
  upstream.ms += performance.now() - sentCall.sentAt
  upstream.isStreamed = outcome.kind === 'stream'
  if (client.hasDisconnected() && outcome.kind === 'failure') {
    // docs/reference/money.md: Who pays. `left`: the provider has the request, so its input is charged. `not sent`: it did
    // no work.
    candidates.note(step, outcome.wasSent ? 'left' : 'not sent', sentCall.sentMs)
    void slot.end({ kind: 'client' })
    return CLIENT_DISCONNECTED
  }
  if (outcome.kind === 'stream') {
    candidates.note(step, outcome.status, sentCall.sentMs)
    slot.health.answered()
    return {
      kind: 'stream',
      step,
      health: slot.health,
      ticket: slot.ticket,
      exchange: sentCall.exchange,
      outgoing: ready.outgoing,
      overriddenRequest: ready.overriddenRequest,
      trace: candidates.trace,
      streamed: outcome,
      earlyHeaders,
    }
  }
  const judging = call.judge(outcome, ready.outgoing)
  return judging instanceof Promise
    ? judging.then(judgement => resultOf(state, step, sentAttempt, judgement))
    : resultOf(state, step, sentAttempt, judging)
}

function resultOf(
  { candidates, earlyHeaders }: AttemptState,
  step: PlanStep<RelayChannel>,
  { call, slot, ready, sentCall, estimate }: SentAttempt,
  judgement: Judgement,
): AttemptResult | Promise<AttemptResult> {
  if (!('reading' in judgement)) {
    const failed = candidates.noteFailure(step, judgement, sentCall.sentMs)
    if (failed.kind === 'auth') call.forgetCredential()
    const failure = { ...judgement, estimate }
    return slot.end(failed)?.then(() => failure) ?? failure
  }
  const { answer, reading } = judgement
  candidates.note(step, answer.status, sentCall.sentMs)
  earlyHeaders.close()
  return {
    kind: 'buffered',
    step,
    health: slot.health,
    ticket: slot.ticket,
    exchange: sentCall.exchange,
    outgoing: ready.outgoing,
    overriddenRequest: ready.overriddenRequest,
    trace: candidates.trace,
    answer,
    reading,
  }
}

/** An override may make a request more expensive. Holds the difference before the request is sent. */
async function extendHold(
  { hold, priced }: RelayRequest,
  channel: RelayChannel,
  overriddenRequest: NonNullable<Ready['overriddenRequest']>,
): Promise<void> {
  const bound = priced.boundFor(channel, overriddenRequest)
  const missing = bound - hold.held()
  if (missing > 0 && !(await hold.extend(missing))) throw insufficientQuota(bound)
}
