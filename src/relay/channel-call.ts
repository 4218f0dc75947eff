import type { IncomingHttpHeaders } from 'node:http'
import { BUDGET_SHORTAGES } from '../domain/shortage.ts'
import type { Share } from '../http/budget.ts'
import type { PlanStep } from '../routing/plan.ts'
import {
  type AddressBook,
  type ChannelAddress,
  formatOn,
  type RelayChannel,
  signing,
} from './catalog/catalog.ts'
import { forwardedHeaders } from './catalog/header-override.ts'
import type { AnswerReading, ChannelRequest, WorkLimits } from './operations/channel-request.ts'
import type { OperationSpec, ReadContext, Work } from './operations/operation.ts'
import type { RequestSpan } from './request.ts'
import type {
  BufferedResponse,
  StreamedResponse,
  UpstreamExchange,
  UpstreamOutcome,
} from './upstream/exchange.ts'
import { type AttemptFailure, connectionFailure, invalidAnswer, statusFailure } from './upstream/failure.ts'
import { errorAtOnce } from './upstream/first-event.ts'
import type { KeyExchange } from './upstream/key-exchange.ts'
import { encodeOutgoing, type Ready } from './upstream/outgoing.ts'
import { send } from './upstream/send.ts'
import type { Upstream } from './upstream/upstream.ts'

export type CallDeps = {
  readonly upstream: Upstream
  readonly keys: KeyExchange
  readonly readContext: ReadContext
  readonly addressOf: AddressBook
  nowMs(): number
}

/** The part of a request that a call to a channel depends on. */
type CallRequest = {
  readonly spec: OperationSpec
  readonly work: Work
  /** The client's headers; empty for a channel test. */
  readonly client: IncomingHttpHeaders
  readonly requestId?: string
  readonly limits?: WorkLimits
  /** The memory budget that the answer counts against; absent: not counted. */
  readonly share?: Share
  /** Absent if tracing is off. */
  readonly span?: RequestSpan | undefined
}

type Target = Pick<PlanStep<RelayChannel>, 'channel' | 'key' | 'sentModel'>

export type Judgement =
  | { readonly answer: BufferedResponse; readonly reading: AnswerReading }
  | AttemptFailure

const CLIENT_HEADERS = ['openai-beta', 'anthropic-beta', 'anthropic-version'] as const

function acceptOf({ work, spec }: CallRequest): string {
  if (work.isStream) return 'text/event-stream'
  // Operations on files may return other content types than JSON.
  return work.passes || spec.readForm ? '*/*' : 'application/json'
}

/** The gateway's own headers and the allowed ones of the client, then those of the provider and of the channel's settings. */
function headersOf(
  request: CallRequest,
  channel: RelayChannel,
  address: ChannelAddress,
): Record<string, string> {
  const { client, requestId, span } = request
  const headers: Record<string, string> = {
    'content-type': 'application/json',
    accept: acceptOf(request),
    'accept-encoding': 'identity',
    'user-agent': 'sluice',
  }
  if (requestId !== undefined) headers['x-client-request-id'] = requestId
  for (const name of CLIENT_HEADERS) {
    const value = client[name]
    if (typeof value === 'string') headers[name] = value
  }
  const forwarded = forwardedHeaders(channel.headerOverride, client)
  if (span === undefined) return Object.assign(headers, forwarded, address.headers)
  // The client's own trace headers would name another parent.
  const { traceparent: _traceparent, tracestate: _tracestate, ...others } = forwarded
  return Object.assign(headers, others, span.attemptHeaders(), address.headers)
}

/** Prepares one request for one channel: encode, send, judge. Undefined: the channel has no address for the operation. */
export function prepareCall(deps: CallDeps, target: Target, request: CallRequest): ChannelCall | undefined {
  const { channel, key, sentModel } = target
  const { spec, work } = request
  const format = formatOn(channel, spec, sentModel)
  if (!format) return undefined
  const address = deps.addressOf(channel, {
    operation: spec.operation,
    format,
    isStream: work.isStream,
    model: sentModel,
    key,
    sibling: spec.sibling,
    values: work.placeholders?.(channel),
  })
  return address && new ChannelCall(deps, target, request, { format, address })
}

/** One request for one channel, in its format and to its address. */
export class ChannelCall {
  readonly #deps: CallDeps
  readonly #target: Target
  readonly #request: CallRequest
  readonly #format: string
  readonly #address: ChannelAddress

  constructor(
    deps: CallDeps,
    target: Target,
    request: CallRequest,
    { format, address }: { readonly format: string; readonly address: ChannelAddress },
  ) {
    this.#deps = deps
    this.#target = target
    this.#request = request
    this.#format = format
    this.#address = address
  }

  /** The body for the channel, and the reader of its answer. Asynchronous if a large body is translated. */
  request(): ChannelRequest | Promise<ChannelRequest> {
    const { work, limits } = this.#request
    return work.requestFor(this.#target.channel, this.#target.sentModel, limits)
  }

  /** The request as it is sent, or the failure if the channel's overrides reject it. */
  encode(channelRequest: ChannelRequest): Ready | AttemptFailure {
    const { channel, key, sentModel } = this.#target
    const { spec, work, client } = this.#request
    return encodeOutgoing(
      { channel, key, requestedModel: work.model, sentModel, client },
      { spec, readContext: this.#deps.readContext },
      headersOf(this.#request, channel, this.#address),
      channelRequest,
    )
  }

  /** `isEndOfTurn`: the caller has just waited for a commit of the journal. */
  send({ headers, outgoing }: Ready, { isEndOfTurn = false } = {}): UpstreamExchange {
    const { work } = this.#request
    const { channel } = this.#target
    return send(this.#deps.upstream, outgoing, {
      url: this.#address.url,
      headers,
      timeouts: channel.timeouts,
      network: channel.network,
      isStream: work.isStream,
      sign: signing(this.#address, this.#deps, channel.network),
      acceptsNonStream: work.acceptsNonStream,
      passes: work.passes,
      maxAnswerBytes: work.maxAnswerBytes,
      isEndOfTurn,
    })
  }

  /** The answer with its reading, or the failure. Synchronous for a small answer. */
  judge(outcome: WholeOutcome, outgoing: ChannelRequest): Judgement | Promise<Judgement> {
    const { channel } = this.#target
    const { work, share } = this.#request
    if (outcome.kind === 'failure') return connectionFailure(channel, outcome)
    if (outcome.status < 200 || outcome.status >= 300)
      return statusFailure(channel, outcome, { nowMs: this.#deps.nowMs(), format: this.#format })
    // The answer stays in memory until it is delivered to the client.
    if (share?.take(outcome.body.length) === false) return outOfMemory(channel)
    if (work.isStream && !work.acceptsNonStream)
      return invalidAnswer(channel, 'the provider did not answer with a stream')
    const reading = outgoing.readBuffered(outcome)
    return reading instanceof Promise
      ? reading.then(each => judgementOf(channel, outcome, each))
      : judgementOf(channel, outcome, reading)
  }

  /** Called when the provider rejects an exchanged credential, so that the next request exchanges the key again. */
  forgetCredential(): void {
    const { traded } = this.#address
    if (traded) this.#deps.keys.forget(traded.key, this.#target.channel.network)
  }
}

type WholeOutcome = Exclude<UpstreamOutcome, StreamedResponse>

const judgementOf = (channel: RelayChannel, answer: BufferedResponse, reading: AnswerReading): Judgement =>
  reading.fault === undefined ? { answer, reading } : invalidAnswer(channel, reading.fault)

/** The answer of an exchange. A stream whose first event is an error becomes an error response. */
export function firstEventOf(exchange: UpstreamExchange, outcome: UpstreamOutcome): UpstreamOutcome {
  const error = outcome.kind === 'stream' ? errorAtOnce(outcome) : undefined
  if (error) exchange.abort()
  return error ?? outcome
}

function outOfMemory(channel: RelayChannel): AttemptFailure {
  const shortage = BUDGET_SHORTAGES.memory
  return connectionFailure(channel, {
    kind: 'failure',
    reason: 'local',
    message: shortage.code,
    wasSent: true,
    shortage,
  })
}
