import type { ChatError } from '../chat/hub/hub.ts'
import { CHANNEL_STATUS } from '../domain/channel.ts'
import { Refusal } from '../domain/errors.ts'
import { BUDGET_SHORTAGES } from '../domain/shortage.ts'
import type { Attempt } from '../routing/health.ts'
import { type PlanStep, planCursor, retryAfterS, SKIP_REASONS } from '../routing/plan.ts'
import type { Admission, Release, Ticket } from '../routing/rates.ts'
import { sentModel as modelOn } from '../routing/table.ts'
import { type EarlyHeaders, openEarlyHeaders } from './answer/early-headers.ts'
import { strictRefusal } from './callers/admit.ts'
import {
  type ChannelAddress,
  createAddressBook,
  formatOn,
  type RelayChannel,
  signing,
} from './catalog/catalog.ts'
import { forwardedHeaders } from './catalog/header-override.ts'
import type { AnswerReading, ChannelRequest } from './operations/channel-request.ts'
import type { RelayRequest, Trace } from './request.ts'
import {
  type AttemptFailure,
  connectionFailure,
  invalidAnswer,
  refusalFor,
  statusFailure,
} from './upstream/failure.ts'
import { errorAtOnce } from './upstream/first-event.ts'
import { createFormatFallback } from './upstream/format-fallback.ts'
import { encodeOutgoing, type Ready } from './upstream/outgoing.ts'
import { send } from './upstream/send.ts'
import type {
  StreamedResponse,
  UpstreamExchange,
  UpstreamOutcome,
  WholeResponse,
} from './upstream/upstream.ts'

type Begun = {
  readonly step: PlanStep<RelayChannel>
  readonly health: Attempt
  readonly ticket: Ticket
  readonly exchange: UpstreamExchange
  /** The request as the channel was sent it. */
  readonly outgoing: ChannelRequest
  /** The request as the channel's overrides made it, where there are any. */
  readonly changed: Ready['changed']
}

export type AnsweredAttempt =
  | (Begun & {
      readonly kind: 'whole'
      readonly answer: WholeResponse
      readonly reading: AnswerReading
      readonly trace: Trace
    })
  | (Begun & {
      readonly kind: 'stream'
      readonly streamed: StreamedResponse
      readonly trace: Trace
      readonly early: EarlyHeaders
    })
  /** The client left while nothing had been answered. */
  | {
      readonly kind: 'left'
      readonly channel: RelayChannel
      readonly outgoing: ChannelRequest | undefined
      readonly trace: Trace
    }
  /** Nobody answered: what the client is told, and whether a provider's own words are passed on. */
  | {
      readonly kind: 'failed'
      readonly channel: RelayChannel
      readonly outgoing: ChannelRequest | undefined
      readonly refusal: Refusal
      readonly answer: WholeResponse | undefined
      /** What that answer says, where its format is known. */
      readonly error: ChatError | undefined
      readonly trace: Trace
      readonly early: EarlyHeaders
    }

const addressOf = createAddressBook()
const spoken = createFormatFallback()

const CLIENT_HEADERS = ['openai-beta', 'anthropic-beta', 'anthropic-version'] as const

/** Ours by an allow-list, then what the channel's provider and its administrator add. */
function headersOf(
  { response, requestId, work, spec }: RelayRequest,
  channel: RelayChannel,
  address: ChannelAddress,
): Record<string, string> {
  const headers: Record<string, string> = {
    'content-type': 'application/json',
    // Whoever sends files, or is sent one, may be answered in other forms than JSON.
    accept: work.isStream ? 'text/event-stream' : work.passes || spec.readForm ? '*/*' : 'application/json',
    'accept-encoding': 'identity',
    'user-agent': 'sluice',
    'x-client-request-id': requestId,
  }
  for (const name of CLIENT_HEADERS) {
    const value = response.req.headers[name]
    if (typeof value === 'string') headers[name] = value
  }
  return Object.assign(
    headers,
    forwardedHeaders(channel.headerOverride, response.req.headers),
    address.headers,
  )
}

/** Why a channel cannot be asked this at all, whatever its health. */
const refusalOf =
  ({ deps, spec, priced, route, work }: RelayRequest) =>
  (channel: RelayChannel) => {
    // Deleted or disabled since this request was admitted: nothing more goes there.
    if (deps.catalog.table().channel(channel.id)?.status !== CHANNEL_STATUS.enabled)
      return SKIP_REASONS.disabled
    const sent = modelOn(channel, route.model)
    if (!formatOn(channel, spec, sent) || work.unfit?.(channel, sent)) return 'not_offered'
    return priced.priceFor(channel) === undefined ? 'unpriced' : undefined
  }

/** The channels that this request may be sent to, in their order. */
const planOf = (errand: RelayRequest) =>
  planCursor({
    route: errand.route,
    health: errand.deps.health,
    fullForS: ({ id, limits }) => errand.deps.rates.fullForS({ kind: 'channel', id, limits }),
    refusal: refusalOf(errand),
    random: errand.deps.random,
    attempts: errand.deps.catalog.settings().attempts,
  })

/** Walks the plan until a channel answers; everything before the first byte may be tried again elsewhere. */
export async function firstAnswer(errand: RelayRequest): Promise<AnsweredAttempt> {
  const { deps, hold, response } = errand
  const { steps, passedOver, turnedAway, passOver } = planOf(errand)
  const trace: Trace = { failures: [], passedOver, attempts: [] }
  const early = openEarlyHeaders(errand, deps.catalog.settings().early_headers_ms)
  let exchange: UpstreamExchange | undefined
  let hasLeft = response.destroyed
  let last: RelayChannel | undefined
  let outgoing: ChannelRequest | undefined
  let begun: Awaited<ReturnType<typeof begin>>
  const onClose = () => {
    hasLeft = true
    exchange?.abort()
  }
  response.on('close', onClose)

  try {
    for (const step of spoken.walk({ steps, asked: errand, failures: trace.failures, nowMs: deps.nowMs })) {
      if (hasLeft) break
      const { channel } = step
      const beginning = begin(errand, step, againInS => turnedAway(channel, againInS))
      begun = beginning instanceof Promise ? await beginning : beginning
      if (!begun) continue
      last = channel
      const requesting = begun.request()
      const request = requesting instanceof Promise ? await requesting : requesting
      if (errand.work.isStrict && strictRefusal(request)) {
        passOver(channel, 'not_offered')
        void begun.end({ kind: 'client' })
        continue
      }
      const ready = begun.encode(request)
      if ('isRetryable' in ready) {
        trace.attempts.push({ channel: channel.id, status: ready.status || ready.message, ms: 0 })
        begun.end(ready.health)
        trace.failures.push(ready)
        if (!ready.isRetryable) break
        continue
      }
      outgoing = ready.outgoing
      await cover(errand, channel, ready)
      const estimate = errand.priced.estimate(channel, outgoing)
      await hold.attempt(channel.id, estimate)
      if (hasLeft) {
        void begun.end({ kind: 'client' })
        break
      }
      const sentMs = deps.nowMs()
      exchange = begun.send(ready)
      const outcome = await outcomeOf(exchange)
      const note = (status: number | string) =>
        trace.attempts.push({ channel: channel.id, status, ms: deps.nowMs() - sentMs })
      if (hasLeft && outcome.kind === 'failure') {
        // Without a connection the provider has done no work (docs/reference/money.md: Who pays).
        note(outcome.wasSent ? 'left' : 'not sent')
        begun.end({ kind: 'client' })
        break
      }
      if (outcome.kind === 'stream') {
        note(outcome.status)
        begun.health.answered()
        return {
          kind: 'stream',
          step,
          health: begun.health,
          ticket: begun.ticket,
          exchange,
          outgoing,
          changed: ready.changed,
          streamed: outcome,
          trace,
          early,
        }
      }
      const judging = judge(errand, step, outgoing, outcome)
      const judged = judging instanceof Promise ? await judging : judging
      if ('reading' in judged) {
        note(judged.answer.status)
        early.close()
        return {
          kind: 'whole',
          step,
          health: begun.health,
          ticket: begun.ticket,
          exchange,
          outgoing,
          changed: ready.changed,
          answer: judged.answer,
          reading: judged.reading,
          trace,
        }
      }
      note(judged.status === 0 ? judged.message : judged.status)
      const release = begun.end(judged.health)
      if (release) await release
      trace.failures.push({ ...judged, estimate })
      if (!judged.isRetryable && !spoken.hasOther(judged, errand, step.sentModel)) break
    }
  } catch (error) {
    // The books could not note the attempt: nobody was asked, and nobody waits any more.
    await begun?.end({ kind: 'client' })
    early.close()
    throw error
  } finally {
    response.off('close', onClose)
    if (hasLeft) early.close()
  }
  if (last === undefined) {
    early.close()
    throw noChannel(errand, trace)
  }
  return hasLeft
    ? { kind: 'left', channel: last, outgoing, trace }
    : { ...allFailed(last, trace, early), outgoing }
}

/** Every channel was passed over: whoever asks again should wait for the first that comes back. */
const noChannel = ({ route }: RelayRequest, { passedOver }: Trace) =>
  new Refusal('no_channel_available', `no channel can take the model "${route.requestedModel}" now`, {
    retryAfterS: retryAfterS(passedOver) ?? 5,
  })

/** A provider's own words are passed on where they are for the client: asked elsewhere it would hear the same. */
function allFailed(channel: RelayChannel, trace: Trace, early: EarlyHeaders) {
  const final = trace.failures.at(-1)
  const isPassed = final?.answer !== undefined && (!final.isRetryable || final.status === 404)
  return {
    kind: 'failed' as const,
    channel,
    refusal: refusalFor(trace.failures),
    answer: isPassed ? final.answer : undefined,
    error: final?.error,
    trace,
    early,
  }
}

/** What came of it; a stream that tells nothing but an error is taken for the answer that it should have been. */
async function outcomeOf(exchange: UpstreamExchange): Promise<UpstreamOutcome> {
  const outcome = await exchange.outcome
  const told = outcome.kind === 'stream' ? errorAtOnce(outcome) : undefined
  if (told) exchange.abort()
  return told ?? outcome
}

/** Takes the channel's place under its limits and the turn of a trial; undefined when somebody was faster. */
function begin(errand: RelayRequest, step: PlanStep<RelayChannel>, onFull: (againInS: number) => void) {
  const { deps, spec, work } = errand
  const { channel, key, sentModel } = step
  const format = formatOn(channel, spec, sentModel)
  const address =
    format &&
    addressOf(channel, {
      operation: spec.operation,
      format,
      isStream: work.isStream,
      model: sentModel,
      key,
      sibling: spec.sibling,
      values: work.placeholders?.(channel),
    })
  if (!address) return undefined
  // First of all and at once: whoever chooses next must see that the trial is taken.
  const health = deps.health.begin(step)
  const enter = (admission: Admission) => {
    if (!admission.ok) {
      health.end({ kind: 'client' })
      onFull(admission.retryAfterS)
      return undefined
    }
    const { ticket } = admission
    return {
      health,
      ticket,
      request: () => work.requestFor(channel, sentModel, errand.priced),
      encode: (request: ChannelRequest) =>
        encodeOutgoing(
          { channel, key, asked: work.model, sent: sentModel, client: errand.response.req.headers },
          { spec, desk: deps.desk },
          headersOf(errand, channel, address),
          request,
        ),
      send: ({ headers, outgoing }: Ready) =>
        send(deps.upstream, outgoing, {
          url: address.url,
          headers,
          timeouts: channel.timeouts,
          isStream: work.isStream,
          ...signing(address, deps),
          ...(work.isWholeTaken && { isWholeTaken: true }),
          ...(work.passes && { passes: work.passes }),
          ...(work.maxAnswerBytes && { maxAnswerBytes: work.maxAnswerBytes }),
        }),
      end(outcome: Parameters<Attempt['end']>[0]): Release {
        if (outcome.kind === 'auth' && address.traded) deps.keys.forget(address.traded.key)
        health.end(outcome)
        return ticket.end(0)
      },
    }
  }
  const admission = deps.rates.admit(
    [{ kind: 'channel', id: channel.id, limits: channel.limits }],
    work.countedInput,
  )
  return admission instanceof Promise ? admission.then(enter) : enter(admission)
}

/** A channel that makes more of a request than the client did is paid for before it is asked, like any other. */
async function cover(
  { hold, priced }: RelayRequest,
  channel: RelayChannel,
  { changed }: Ready,
): Promise<void> {
  const more = changed === undefined ? 0 : priced.boundFor(channel, changed) - hold.held()
  if (more > 0 && !(await hold.extend(more)))
    throw new Refusal('insufficient_quota', 'the quota does not cover what this request may cost')
}

type Judged = { readonly answer: WholeResponse; readonly reading: AnswerReading } | AttemptFailure

/** A good answer, or what is wrong with it; at once where the answer is small. */
function judge(
  { deps, spec, work, share }: RelayRequest,
  { channel, sentModel: sent }: PlanStep<RelayChannel>,
  outgoing: ChannelRequest,
  outcome: Exclude<UpstreamOutcome, StreamedResponse>,
): Judged | Promise<Judged> {
  if (outcome.kind === 'failure') return connectionFailure(channel, outcome)
  if (outcome.status < 200 || outcome.status >= 300)
    return statusFailure(channel, outcome, {
      nowMs: deps.nowMs(),
      format: formatOn(channel, spec, sent),
    })
  // It is kept until the client has it.
  if (!share.take(outcome.body.length)) {
    const shortage = BUDGET_SHORTAGES.memory
    const failure = {
      kind: 'failure',
      reason: 'local',
      message: shortage.code,
      wasSent: true,
      shortage,
    } as const
    return connectionFailure(channel, failure)
  }
  if (work.isStream && !work.isWholeTaken) return invalidAnswer(channel, 'the answer is no stream of events')
  const judged = (reading: AnswerReading): Judged =>
    reading.fault === undefined ? { answer: outcome, reading } : invalidAnswer(channel, reading.fault)
  const reading = outgoing.readWhole(outcome)
  return reading instanceof Promise ? reading.then(judged) : judged(reading)
}
