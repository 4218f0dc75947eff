import { CHANNEL_STATUS } from '../../domain/channel.ts'
import { Refusal } from '../../domain/errors.ts'
import { UNPRICED } from '../../media/dearer-fields.ts'
import { AnswerError } from '../../media/dialect.ts'
import type { Submission, VideoAsk, VideoDialect } from '../../media/video.ts'
import { pricedFields } from '../../media/video-modes.ts'
import { removedWarning } from '../../requests/routing-fields.ts'
import { type PlanStep, planCursor, retryAfterS, SKIP_REASONS } from '../../routing/plan.ts'
import type { Release } from '../../routing/rates.ts'
import { sentModel as modelOn } from '../../routing/table.ts'
import type { RelayChannel } from '../catalog/catalog.ts'
import type { RelayRequest, Trace } from '../request.ts'
import { type AttemptFailure, connectionFailure, invalidAnswer, statusFailure } from '../upstream/failure.ts'
import type { UpstreamOutcome, WholeResponse } from '../upstream/upstream.ts'
import type { VideoDeps } from './deps.ts'
import { overrideSubmission } from './override.ts'
import type { VideoPrice } from './price.ts'
import { accessOf, parsedBody, type VendorAccess, VendorError, videoDialect } from './vendor.ts'

export type VideoRequest = RelayRequest & {
  readonly deps: VideoDeps
  readonly priced: VideoPrice
  readonly ask: VideoAsk
  readonly videoId: string
  /** The job it is made from: the channel that has it is the only one that can be asked. */
  readonly source?: {
    readonly access: VendorAccess
    readonly channelId: number
    readonly submit: (prompt: string) => Submission
  }
}

/** How a submission ended. */
export type SubmittedJob = { readonly trace: Trace } & (
  | {
      readonly kind: 'accepted'
      readonly step: PlanStep<RelayChannel>
      readonly ids: readonly string[]
      /** How many videos those jobs make, and how many nobody knows of. */
      readonly videos: number
      readonly doubtful: number
      readonly warnings: readonly string[]
      readonly answer: WholeResponse
    }
  /** It was sent, and nobody knows whether it was taken. */
  | {
      readonly kind: 'doubt'
      readonly channel: RelayChannel
      readonly videos: number
      readonly reason: string
    }
  /** Nobody took it. */
  | { readonly kind: 'failed'; readonly channel: RelayChannel; readonly failure: AttemptFailure }
)

/** Only these and connection errors are retried (docs/reference/videos.md: Video submission). */
const NEXT_CHANNEL = new Set([401, 402, 403, 404, 429])
const AT_ONCE = 4

type Judged =
  | { readonly kind: 'accepted'; readonly id: string; readonly answer: WholeResponse }
  | { readonly kind: 'next' | 'refused' | 'doubt'; readonly failure: AttemptFailure }

/** A refusal inside an answer whose status is good, as an answer whose status says so. */
function honest(dialect: VideoDialect, answer: WholeResponse): WholeResponse {
  const refusal = dialect.refused?.(parsedBody(answer))
  if (!refusal) return answer
  const { status, code, message } = refusal
  const error = { message, type: 'invalid_request_error', param: null, code }
  return { ...answer, status, body: Buffer.from(JSON.stringify({ error })) }
}

function judge(
  dialect: VideoDialect,
  channel: RelayChannel,
  outcome: UpstreamOutcome,
  nowMs: number,
): Judged {
  if (outcome.kind === 'stream') return { kind: 'doubt', failure: invalidAnswer(channel, 'a stream') }
  if (outcome.kind === 'failure') {
    const failure = connectionFailure(channel, outcome)
    if (outcome.wasSent && outcome.reason !== 'connect') return { kind: 'doubt', failure }
    return { kind: failure.isRetryable ? 'next' : 'refused', failure }
  }
  const isGood = outcome.status >= 200 && outcome.status < 300
  const answer = isGood ? honest(dialect, outcome) : outcome
  if (answer.status >= 200 && answer.status < 300) {
    try {
      return { kind: 'accepted', id: dialect.accepted(parsedBody(answer)), answer }
    } catch (error) {
      if (error instanceof AnswerError)
        return { kind: 'doubt', failure: invalidAnswer(channel, error.message) }
      throw error
    }
  }
  const failure = statusFailure(channel, answer, { nowMs, format: undefined })
  if (NEXT_CHANNEL.has(answer.status) || failure.health.kind === 'auth') return { kind: 'next', failure }
  return { kind: answer.status >= 500 || answer.status === 408 ? 'doubt' : 'refused', failure }
}

const refusalOf = (errand: VideoRequest) => (channel: RelayChannel) => {
  const { deps, priced, route, work, source } = errand
  if (source) return source.channelId === channel.id ? undefined : 'not_offered'
  if (deps.catalog.table().channel(channel.id)?.status !== CHANNEL_STATUS.enabled)
    return SKIP_REASONS.disabled
  const sent = modelOn(channel, route.model)
  if (!videoDialect(channel.provider, sent) || work.unfit?.(channel, sent)) return 'not_offered'
  return priced.priceFor(channel) === undefined ? 'unpriced' : undefined
}

/** What an attempt is about to do; written down before it is done. */
export type Aiming = {
  readonly channel: RelayChannel
  readonly sentModel: string
  readonly access: VendorAccess
  readonly kind: string
}

export type Attempting = {
  readonly errand: VideoRequest
  /** Says where the job goes, in the store and in the journal; nothing is sent before it resolves. */
  aim(aiming: Aiming): Promise<void>
  /** Whether something is on its way of which nobody knows how it ends. */
  onFlight(isFlying: boolean): void
}

const left = () => new Refusal('request_timeout', 'the client left before its job was sent')

/** Walks the plan until a channel takes the job, or one leaves in doubt whether it has; what is sent outlives its client. */
export async function submitSomewhere({ errand, aim, onFlight }: Attempting): Promise<SubmittedJob> {
  const { deps, route, response } = errand
  const { steps, passedOver, turnedAway } = planCursor({
    route,
    health: deps.health,
    fullForS: channel => deps.rates.fullForS({ kind: 'channel', id: channel.id, limits: channel.limits }),
    refusal: refusalOf(errand),
    random: deps.random,
    attempts: deps.catalog.settings().attempts,
  })
  const trace: Trace = { failures: [], passedOver, attempts: [] }
  let last: { channel: RelayChannel; failure: AttemptFailure } | undefined
  for (const step of steps) {
    const { channel } = step
    const turn = await takeTurn(errand, step, againInS => turnedAway(channel, againInS))
    if (!turn) continue
    try {
      const prepared = await prepare(errand, step)
      if ('isRetryable' in prepared) {
        turn.end(prepared.health)
        trace.attempts.push({ channel: channel.id, status: prepared.status || prepared.message, ms: 0 })
        trace.failures.push(prepared)
        last = { channel, failure: prepared }
        if (!prepared.isRetryable) break
        continue
      }
      await aim({
        channel,
        sentModel: step.sentModel,
        access: prepared.access,
        kind: prepared.first.kind ?? '',
      })
      // Whoever left before anything was sent pays nothing, and would never hear of the job.
      if (response.destroyed) throw left()
      const sentMs = deps.nowMs()
      onFlight(true)
      const judged = await sendOne(errand, step, prepared, prepared.first)
      const status = judged.kind === 'accepted' ? judged.answer.status : judged.failure.status
      trace.attempts.push({ channel: channel.id, status: status || 'no answer', ms: deps.nowMs() - sentMs })
      if (judged.kind === 'accepted') {
        turn.end({ kind: 'ok' })
        return { ...(await submitRest(errand, step, prepared, judged)), trace }
      }
      turn.end(judged.failure.health)
      if (judged.kind === 'doubt')
        return {
          kind: 'doubt',
          channel,
          videos: Math.min(errand.ask.n, prepared.most),
          reason: judged.failure.message,
          trace,
        }
      onFlight(false)
      trace.failures.push(judged.failure)
      last = { channel, failure: judged.failure }
      if (judged.kind === 'refused') break
    } finally {
      await turn.end({ kind: 'client' })
    }
  }
  if (last) return { kind: 'failed', ...last, trace }
  throw new Refusal('no_channel_available', `no channel can take the model "${route.requestedModel}" now`, {
    retryAfterS: retryAfterS(passedOver) ?? 5,
  })
}

async function takeTurn(
  { deps }: VideoRequest,
  step: PlanStep<RelayChannel>,
  onFull: (againInS: number) => void,
) {
  const { id, limits } = step.channel
  const health = deps.health.begin(step)
  const admission = await deps.rates.admit([{ kind: 'channel', id, limits }], 0)
  if (!admission.ok) {
    health.end({ kind: 'client' })
    onFull(admission.retryAfterS)
    return undefined
  }
  let release: Release
  return {
    /** Counts the first time it is called. */
    end(outcome: Parameters<typeof health.end>[0]): Release {
      health.end(outcome)
      release ??= admission.ticket.end(0)
      return release
    },
  }
}

type Prepared = {
  readonly dialect: VideoDialect
  readonly access: VendorAccess
  /** How many videos one call asks for. */
  readonly most: number
  readonly first: Submission
  more(videos: number, reference?: string): Promise<Submission | AttemptFailure>
}

/** What is sent to a channel, or why its own overrides keep it from going there. */
async function prepare(
  errand: VideoRequest,
  step: PlanStep<RelayChannel>,
): Promise<Prepared | AttemptFailure> {
  const { source, priced } = errand
  const { channel, key, sentModel } = step
  const dialect = videoDialect(channel.provider, sentModel)
  if (!dialect) throw new Error('a channel without video jobs was chosen')
  const access = source?.access ?? accessOf(channel, key)
  const sentFields = pricedFields(errand.ask.metadata, priced.granted(channel), dialect.usualModes)
  const ask = { ...errand.ask, metadata: sentFields.fields, seconds: priced.secondsOn(channel) }
  const unpriced = sentFields.removed.map(name => `${name} ${UNPRICED}`)
  const most = dialect.most ?? 1
  const more = async (n: number, reference?: string): Promise<Submission | AttemptFailure> => {
    const submission = source
      ? source.submit(ask.prompt ?? '')
      : await dialect.submit({ ...ask, n }, sentModel, reference)
    const seconds = priced.isByLength(channel) ? ask.seconds : undefined
    const warned =
      unpriced.length === 0
        ? submission
        : { ...submission, warnings: [...(submission.warnings ?? []), ...unpriced] }
    return overrideSubmission(warned, errand, step, { seconds, videos: n })
  }
  const first = await more(Math.min(most, ask.n), errand.videoId)
  if ('isRetryable' in first) return first
  const removed = errand.ask.removed ?? []
  const warnings = [...(removed.length > 0 ? [removedWarning(removed)] : []), ...(first.warnings ?? [])]
  const [lost] = warnings
  if (errand.work.isStrict && lost !== undefined)
    throw new Refusal(
      'invalid_parameter',
      lost,
      removed[0] ? { errors: [{ path: removed[0], message: lost }] } : {},
    )
  return { dialect, access, most, more, first: { ...first, warnings } }
}

async function sendOne(
  { deps, requestId }: VideoRequest,
  { channel, sentModel }: PlanStep<RelayChannel>,
  { access, dialect }: Prepared,
  submission: Submission,
): Promise<Judged> {
  try {
    const exchange = await deps.vendor.send(submission, {
      access,
      model: sentModel,
      headers: { 'x-client-request-id': requestId },
    })
    return judge(dialect, channel, await exchange.outcome, deps.nowMs())
  } catch (error) {
    if (!(error instanceof VendorError)) throw error
    // Nothing was sent: there was no address or no credential.
    const failure = { kind: 'failure', reason: 'connect', message: error.message, wasSent: false } as const
    return { kind: 'next', failure: connectionFailure(channel, failure) }
  }
}

/** A vendor that makes one video a call is asked for each of the others too, and what it refuses is not paid. */
async function submitRest(
  errand: VideoRequest,
  step: PlanStep<RelayChannel>,
  prepared: Prepared,
  { id, answer }: Extract<Judged, { kind: 'accepted' }>,
) {
  const { most, first } = prepared
  const counts: number[] = []
  for (let left = errand.ask.n - most; left > 0; left -= most) counts.push(Math.min(most, left))
  const ids = [id]
  let videos = Math.min(most, errand.ask.n)
  let doubtful = 0
  let refused = 0
  async function lane(): Promise<void> {
    for (let count = counts.shift(); count !== undefined; count = counts.shift()) {
      const submission = await prepared.more(count)
      const isKept = 'isRetryable' in submission
      const judged = isKept
        ? ({ kind: 'refused', failure: submission } as const)
        : await sendOne(errand, step, prepared, submission)
      if (judged.kind === 'accepted') {
        ids.push(judged.id)
        videos += count
      } else if (judged.kind === 'doubt') doubtful += count
      else refused += count
    }
  }
  await Promise.all(Array.from({ length: Math.min(AT_ONCE, counts.length) }, lane))
  const warnings = [
    ...(first.warnings ?? []),
    ...(refused + doubtful > 0 ? [`${refused + doubtful} of ${errand.ask.n} videos were not taken`] : []),
  ]
  return { kind: 'accepted', step, ids, videos, doubtful, warnings, answer } as const
}
