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
import { type AttemptFailure, connectionFailure, invalidAnswer, statusFailure } from './upstream/failure.ts'
import { errorAtOnce } from './upstream/first-event.ts'
import type { KeyExchange } from './upstream/key-exchange.ts'
import { encodeOutgoing, type Ready } from './upstream/outgoing.ts'
import { send } from './upstream/send.ts'
import type {
  StreamedResponse,
  Upstream,
  UpstreamExchange,
  UpstreamOutcome,
  WholeResponse,
} from './upstream/upstream.ts'

export type CallDeps = {
  readonly upstream: Upstream
  readonly keys: KeyExchange
  readonly desk: ReadContext
  readonly addressOf: AddressBook
  nowMs(): number
}

/** A request, as far as its call to a channel depends on it. */
type CallRequest = {
  readonly spec: OperationSpec
  readonly work: Work
  /** Headers of the client; none for a test. */
  readonly client: IncomingHttpHeaders
  readonly requestId?: string
  readonly limits?: WorkLimits
  /** The memory for the answer; absent: nothing is counted. */
  readonly share?: Share
}

type Target = Pick<PlanStep<RelayChannel>, 'channel' | 'key' | 'sentModel'>

type Judgement = { readonly answer: WholeResponse; readonly reading: AnswerReading } | AttemptFailure

const CLIENT_HEADERS = ['openai-beta', 'anthropic-beta', 'anthropic-version'] as const

function acceptOf({ work, spec }: CallRequest): string {
  if (work.isStream) return 'text/event-stream'
  // Operations on files may be answered in other forms than JSON.
  return work.passes || spec.readForm ? '*/*' : 'application/json'
}

/** The gateway's own headers and the allowed ones of the client, then those of the provider and its administrator. */
function headersOf(
  request: CallRequest,
  channel: RelayChannel,
  address: ChannelAddress,
): Record<string, string> {
  const { client, requestId } = request
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
  return Object.assign(headers, forwardedHeaders(channel.headerOverride, client), address.headers)
}

/** One request for one channel: how it is encoded, sent and judged. Undefined: the channel has no address for it. */
export function prepareCall(deps: CallDeps, { channel, key, sentModel }: Target, request: CallRequest) {
  const { spec, work, client } = request
  const format = formatOn(channel, spec, sentModel)
  const address =
    format &&
    deps.addressOf(channel, {
      operation: spec.operation,
      format,
      isStream: work.isStream,
      model: sentModel,
      key,
      sibling: spec.sibling,
      values: work.placeholders?.(channel),
    })
  if (!address) return undefined
  return {
    /** The body for the channel, and how its answer is read; a large body that is translated takes a while. */
    request: (): ChannelRequest | Promise<ChannelRequest> =>
      work.requestFor(channel, sentModel, request.limits),
    /** The request as it leaves, or why the overrides of the channel prevent that. */
    encode: (channelRequest: ChannelRequest): Ready | AttemptFailure =>
      encodeOutgoing(
        { channel, key, requestedModel: work.model, sentModel, client },
        { spec, desk: deps.desk },
        headersOf(request, channel, address),
        channelRequest,
      ),
    send: ({ headers, outgoing }: Ready): UpstreamExchange =>
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
    judge: (outcome: Exclude<UpstreamOutcome, StreamedResponse>, outgoing: ChannelRequest) =>
      judge(outcome, outgoing, { channel, work, share: request.share, format, nowMs: deps.nowMs }),
    /** After the provider has refused the credential for which a key was exchanged: the next request gets a new one. */
    forgetCredential(): void {
      if (address.traded) deps.keys.forget(address.traded.key)
    },
  }
}

export type ChannelCall = NonNullable<ReturnType<typeof prepareCall>>

/** The outcome of an exchange. A stream that begins with an error counts as the error response it should have been. */
export async function outcomeOf(exchange: UpstreamExchange): Promise<UpstreamOutcome> {
  const outcome = await exchange.outcome
  const error = outcome.kind === 'stream' ? errorAtOnce(outcome) : undefined
  if (error) exchange.abort()
  return error ?? outcome
}

type Judging = Pick<CallRequest, 'work'> & {
  readonly channel: RelayChannel
  readonly share: Share | undefined
  readonly format: string
  nowMs(): number
}

/** A good answer, or what is wrong with it; synchronously where the answer is small. */
function judge(
  outcome: Exclude<UpstreamOutcome, StreamedResponse>,
  outgoing: ChannelRequest,
  { channel, work, share, format, nowMs }: Judging,
): Judgement | Promise<Judgement> {
  if (outcome.kind === 'failure') return connectionFailure(channel, outcome)
  if (outcome.status < 200 || outcome.status >= 300)
    return statusFailure(channel, outcome, { nowMs: nowMs(), format })
  // The answer stays in memory until the client has it.
  if (share?.take(outcome.body.length) === false) return outOfMemory(channel)
  if (work.isStream && !work.isWholeTaken)
    return invalidAnswer(channel, 'the provider did not answer with a stream')
  const judgement = (reading: AnswerReading): Judgement =>
    reading.fault === undefined ? { answer: outcome, reading } : invalidAnswer(channel, reading.fault)
  const reading = outgoing.readWhole(outcome)
  return reading instanceof Promise ? reading.then(judgement) : judgement(reading)
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
