import type { ServerResponse } from 'node:http'
import type { ChatError } from '../chat/hub/hub.ts'
import { Refusal } from '../domain/errors.ts'
import type { Attempt } from '../routing/health.ts'
import type { PlanStep } from '../routing/plan.ts'
import type { Ticket } from '../routing/rates.ts'
import { type EarlyHeaders, openEarlyHeaders } from './answer/early-headers.ts'
import { type AttemptTurn, type Candidates, openCandidates } from './candidates.ts'
import type { RelayChannel } from './catalog/catalog.ts'
import { type ChannelCall, outcomeOf, prepareCall } from './channel-call.ts'
import { createEligibility, NOT_OFFERED, strictRefusal } from './eligibility.ts'
import type { AnswerReading, ChannelRequest } from './operations/channel-request.ts'
import type { RelayRequest, Trace } from './request.ts'
import { type AttemptFailure, refusalFor } from './upstream/failure.ts'
import { lacksFormat, nextAttempt } from './upstream/format-fallback.ts'
import type { Ready } from './upstream/outgoing.ts'
import type { StreamedResponse, UpstreamExchange, WholeResponse } from './upstream/upstream.ts'

/** An attempt that a channel answered. */
type Answered = {
  readonly step: PlanStep<RelayChannel>
  readonly health: Attempt
  readonly ticket: Ticket
  readonly exchange: UpstreamExchange
  /** The request as the channel was sent it. */
  readonly outgoing: ChannelRequest
  /** The request as the overrides of the channel changed it; undefined where there are none. */
  readonly changed: Ready['changed']
  readonly trace: Trace
}

export type AnsweredAttempt =
  | (Answered & {
      readonly kind: 'whole'
      readonly answer: WholeResponse
      readonly reading: AnswerReading
    })
  | (Answered & {
      readonly kind: 'stream'
      readonly streamed: StreamedResponse
      readonly early: EarlyHeaders
    })
  /** The client disconnected before any channel answered. */
  | (LastAttempt & { readonly kind: 'left'; readonly trace: Trace })
  /** No channel answered. */
  | (LastAttempt & {
      readonly kind: 'failed'
      readonly refusal: Refusal
      /** The error response of the provider, where the client gets that one. */
      readonly answer: WholeResponse | undefined
      /** The same error, decoded where its format is known. */
      readonly error: ChatError | undefined
      readonly trace: Trace
      readonly early: EarlyHeaders
    })

type LastAttempt = {
  readonly channel: RelayChannel
  /** The request as the channel was sent it; undefined where it was not sent. */
  readonly outgoing?: ChannelRequest | undefined
}

/** One pass over the candidates of a request. */
type Pass = {
  readonly request: RelayRequest
  readonly candidates: Candidates
  readonly early: EarlyHeaders
  readonly client: Client
  last: LastAttempt | undefined
}

const CLIENT_LEFT = Symbol('client left')

/** Undefined: the channel was not asked. */
type AttemptResult =
  | Extract<AnsweredAttempt, { kind: 'whole' | 'stream' }>
  | AttemptFailure
  | typeof CLIENT_LEFT
  | undefined

const isFailure = (result: AttemptResult): result is AttemptFailure =>
  typeof result === 'object' && 'isRetryable' in result

/** Tries channels until one answers. Before the first byte of an answer, any failure may move on to the next channel. */
export async function firstAnswer(request: RelayRequest): Promise<AnsweredAttempt> {
  const { deps, response } = request
  const candidates = candidatesOf(request)
  const early = openEarlyHeaders(request, deps.catalog.settings().early_headers_ms)
  const client = watchClient(response)
  const pass: Pass = { request, candidates, early, client, last: undefined }
  try {
    for (const step of candidates.steps) {
      if (client.hasLeft()) break
      const result = await askChannel(pass, step)
      if (result === undefined) continue
      if (result === CLIENT_LEFT) break
      if (!isFailure(result)) return result
      candidates.trace.failures.push(result)
      if (!result.isRetryable) break
    }
  } catch (error) {
    early.close()
    throw error
  } finally {
    client.unwatch()
    if (client.hasLeft()) early.close()
  }
  const { trace, noChannel } = candidates
  const { last } = pass
  if (last === undefined) {
    early.close()
    throw noChannel()
  }
  return client.hasLeft() ? { ...last, kind: 'left', trace } : allFailed(last, trace, early)
}

function candidatesOf({ deps, spec, work, route, priced }: RelayRequest): Candidates {
  const ineligible = createEligibility({
    catalog: deps.catalog,
    route,
    spec,
    isUnfit: (channel, sentModel) => work.unfit?.(channel, sentModel) !== undefined,
    priceFor: priced.priceFor,
  })
  return openCandidates(deps, { route, ineligible, countedInput: work.countedInput })
}

type Client = ReturnType<typeof watchClient>

/** Notices when the client disconnects, and aborts the running exchange then. */
function watchClient(response: ServerResponse) {
  let isClosed = response.destroyed
  let running: UpstreamExchange | undefined
  const onClose = () => {
    isClosed = true
    running?.abort()
  }
  response.on('close', onClose)
  return {
    hasLeft: () => isClosed,
    waitsFor(exchange: UpstreamExchange): void {
      running = exchange
    },
    unwatch: () => void response.off('close', onClose),
  }
}

/** The client gets the provider's error response where another channel would give the same one. */
function allFailed(last: LastAttempt, trace: Trace, early: EarlyHeaders): AnsweredAttempt {
  const final = trace.failures.at(-1)
  const isForClient = final?.answer !== undefined && (!final.isRetryable || final.status === 404)
  return {
    ...last,
    kind: 'failed',
    refusal: refusalFor(trace.failures),
    answer: isForClient ? final.answer : undefined,
    error: final?.error,
    trace,
    early,
  }
}

/** Asks one channel; where it lacks the format, again in the next one that it may have. */
async function askChannel(pass: Pass, planned: PlanStep<RelayChannel>): Promise<AttemptResult> {
  const { spec, work, deps } = pass.request
  const { formats } = deps
  const formatRequest = { spec, work, sentModel: planned.sentModel }
  const first = formats.recall(planned.channel, formatRequest)
  let failure: AttemptFailure | undefined
  for (let channel: RelayChannel | undefined = first; channel !== undefined; ) {
    const step = channel === planned.channel ? planned : { ...planned, channel }
    const result = await attempt(pass, step)
    if (result === undefined) return failure
    if (!isFailure(result)) {
      if (result !== CLIENT_LEFT && channel !== first)
        formats.remember(planned.channel, formatRequest, channel)
      return result
    }
    const isLacking = lacksFormat(result)
    // That the channel lacks a second format too is no news: the client gets the first error.
    if (failure === undefined || !(isLacking && lacksFormat(failure))) failure = result
    if (isLacking) formats.forget(planned.channel, formatRequest)
    const next: RelayChannel | undefined = pass.client.hasLeft()
      ? undefined
      : nextAttempt(channel, result, formatRequest)
    if (next === undefined && !isLacking && channel !== first)
      formats.remember(planned.channel, formatRequest, channel)
    channel = next
  }
  return failure
}

/** One attempt: takes a turn, notes it in the books, sends the request and judges the outcome. */
async function attempt(pass: Pass, step: PlanStep<RelayChannel>): Promise<AttemptResult> {
  const { request, candidates } = pass
  const call = prepareCall(request.deps, step, {
    spec: request.spec,
    work: request.work,
    client: request.response.req.headers,
    requestId: request.requestId,
    limits: request.priced,
    share: request.share,
  })
  if (!call) return undefined
  const entering = candidates.takeTurn(step)
  const turn = entering instanceof Promise ? await entering : entering
  if (!turn) return undefined
  try {
    const requesting = call.request()
    const channelRequest = requesting instanceof Promise ? await requesting : requesting
    if (request.work.isStrict && strictRefusal(channelRequest)) {
      candidates.passOver(step.channel, NOT_OFFERED)
      await turn.end({ kind: 'client' })
      return undefined
    }
    pass.last = { channel: step.channel }
    const ready = call.encode(channelRequest)
    if ('isRetryable' in ready) {
      candidates.note(step, ready.status || ready.message)
      await turn.end(ready.health)
      return ready
    }
    pass.last = { channel: step.channel, outgoing: ready.outgoing }
    await cover(request, step.channel, ready)
    const estimate = request.priced.estimate(step.channel, ready.outgoing)
    await request.hold.attempt(step.channel.id, estimate)
    const result = await exchange(pass, step, { call, turn, ready })
    return isFailure(result) ? { ...result, estimate } : result
  } catch (error) {
    // For example, the books could not note the attempt: the channel was not asked.
    await turn.end({ kind: 'client' })
    throw error
  }
}

type Started = { readonly call: ChannelCall; readonly turn: AttemptTurn; readonly ready: Ready }

async function exchange(
  { request, candidates, early, client }: Pass,
  step: PlanStep<RelayChannel>,
  { call, turn, ready }: Started,
): Promise<AttemptResult> {
  const { trace } = candidates
  const { health, ticket } = turn
  if (client.hasLeft()) {
    void turn.end({ kind: 'client' })
    return CLIENT_LEFT
  }
  const sentMs = request.deps.nowMs()
  const { outgoing, changed } = ready
  const running = call.send(ready)
  client.waitsFor(running)
  const outcome = await outcomeOf(running)
  if (client.hasLeft() && outcome.kind === 'failure') {
    // Without a connection the provider has done no work (docs/reference/money.md: Who pays).
    candidates.note(step, outcome.wasSent ? 'left' : 'not sent', sentMs)
    void turn.end({ kind: 'client' })
    return CLIENT_LEFT
  }
  const answered = { step, health, ticket, exchange: running, outgoing, changed, trace }
  if (outcome.kind === 'stream') {
    candidates.note(step, outcome.status, sentMs)
    health.answered()
    return { ...answered, kind: 'stream', streamed: outcome, early }
  }
  const judging = call.judge(outcome, outgoing)
  const judgement = judging instanceof Promise ? await judging : judging
  if ('reading' in judgement) {
    candidates.note(step, judgement.answer.status, sentMs)
    early.close()
    return { ...answered, kind: 'whole', answer: judgement.answer, reading: judgement.reading }
  }
  candidates.note(step, judgement.status || judgement.message, sentMs)
  if (judgement.health.kind === 'auth') call.forgetCredential()
  await turn.end(judgement.health)
  return judgement
}

/** An override may make a request more expensive than the client's own. The difference is held before it is sent. */
async function cover(
  { hold, priced }: RelayRequest,
  channel: RelayChannel,
  { changed }: Ready,
): Promise<void> {
  const more = changed === undefined ? 0 : priced.boundFor(channel, changed) - hold.held()
  if (more > 0 && !(await hold.extend(more)))
    throw new Refusal(
      'insufficient_quota',
      'The token or its user does not have enough quota for this request.',
    )
}
