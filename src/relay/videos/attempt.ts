import { Refusal } from '../../domain/errors.ts'
import { unpricedWarnings } from '../../media/dearer-fields.ts'
import { AnswerError } from '../../media/dialect.ts'
import type { Submission, VideoAsk, VideoDialect } from '../../media/video.ts'
import { pricedFields } from '../../media/video-modes.ts'
import { removedWarning } from '../../requests/routing-fields.ts'
import type { PlanStep } from '../../routing/plan.ts'
import { type AttemptSlot, Candidates } from '../candidates.ts'
import type { RelayChannel } from '../catalog/catalog.ts'
import { createFitCheck, createSkipReason, strictRefusal } from '../eligibility.ts'
import type { RelayRequest, Trace } from '../request.ts'
import type { BufferedResponse, UpstreamOutcome } from '../upstream/exchange.ts'
import { type AttemptFailure, connectionFailure, invalidAnswer, statusFailure } from '../upstream/failure.ts'
import { healthOutcome } from '../upstream/provider-report.ts'
import type { VideoDeps } from './deps.ts'
import { overrideSubmission } from './override.ts'
import type { VideoPrice } from './price.ts'
import { accessOf, parsedBody, type VendorAccess, VendorError, videoDialect } from './vendor.ts'

export type VideoRequest = RelayRequest & {
  readonly deps: VideoDeps
  readonly priced: VideoPrice
  readonly ask: VideoAsk
  readonly videoId: string
  /** The source job of a remix: only the channel that stores it can run the remix. */
  readonly source?: {
    readonly access: VendorAccess
    readonly channelId: number
    readonly submit: (prompt: string) => Submission
  }
}

type AcceptedJob = {
  readonly kind: 'accepted'
  readonly step: PlanStep<RelayChannel>
  readonly ids: readonly string[]
  /** The number of videos that those jobs generate. */
  readonly videos: number
  /** The number of further videos that were submitted without a response. */
  readonly unansweredVideos: number
  readonly warnings: readonly string[]
  readonly answer: BufferedResponse
}

/** The job was sent, but the provider did not report whether it accepted the job. */
type UnansweredJob = {
  readonly kind: 'unanswered'
  readonly channel: RelayChannel
  readonly videos: number
  readonly reason: string
}

/** No channel accepted the job. */
type FailedJob = {
  readonly kind: 'failed'
  readonly channel: RelayChannel
  readonly failure: AttemptFailure
}

/** The outcome of a submission. */
export type SubmittedJob = { readonly trace: Trace } & (AcceptedJob | UnansweredJob | FailedJob)

/** Only these and connection errors are retried (docs/reference/videos.md: Video submission). */
const NEXT_CHANNEL = new Set([401, 402, 403, 404, 429])
const AT_ONCE = 4

type Judged =
  | { readonly kind: 'accepted'; readonly id: string; readonly answer: BufferedResponse }
  | { readonly kind: 'next' | 'refused' | 'unanswered'; readonly failure: AttemptFailure }

/** Turns a refusal inside a response with a success status into one with an error status. */
function withErrorStatus(dialect: VideoDialect, answer: BufferedResponse): BufferedResponse {
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
  if (outcome.kind === 'stream') return { kind: 'unanswered', failure: invalidAnswer(channel, 'a stream') }
  if (outcome.kind === 'failure') {
    const failure = connectionFailure(channel, outcome)
    if (outcome.wasSent && outcome.reason !== 'connect') return { kind: 'unanswered', failure }
    return { kind: failure.isRetryable ? 'next' : 'refused', failure }
  }
  const isGood = outcome.status >= 200 && outcome.status < 300
  const answer = isGood ? withErrorStatus(dialect, outcome) : outcome
  if (answer.status >= 200 && answer.status < 300) {
    try {
      return { kind: 'accepted', id: dialect.accepted(parsedBody(answer)), answer }
    } catch (error) {
      if (error instanceof AnswerError)
        return { kind: 'unanswered', failure: invalidAnswer(channel, error.message) }
      throw error
    }
  }
  const failure = statusFailure(channel, answer, { nowMs, format: undefined })
  if (NEXT_CHANNEL.has(answer.status) || failure.health.kind === 'auth') return { kind: 'next', failure }
  return { kind: answer.status >= 500 || answer.status === 408 ? 'unanswered' : 'refused', failure }
}

/** A remix goes to the channel of its source; any other job to any eligible channel. */
function candidatesOf({ deps, spec, priced, route, work, source, report }: VideoRequest): Candidates {
  const misfit = createFitCheck(deps.catalog, route, work)
  const skipReason = createSkipReason({
    catalog: deps.catalog,
    route,
    spec,
    work: { unfit: channel => (source ? source.channelId !== channel.id || undefined : misfit(channel)) },
    prices: priced,
  })
  return new Candidates(deps, { route, skipReason, countedInput: 0, span: report.span })
}

/** A planned attempt, recorded before it is sent. */
export type PlannedSubmission = {
  readonly channel: RelayChannel
  readonly sentModel: string
  readonly access: VendorAccess
  readonly kind: string
}

type VideoSubmission = {
  readonly videoRequest: VideoRequest
  /** Records the channel of the job in the store and in the journal. Nothing is sent before this resolves. */
  aim(planned: PlannedSubmission): Promise<void>
  /** Called when a submission is in flight, with an unknown outcome, and when it no longer is. */
  onFlight(isInFlight: boolean): void
}

type RejectedJob = { readonly kind: 'next' | 'refused'; readonly failure: AttemptFailure }

/**
 * Tries channels until one accepts the job or leaves the outcome unknown: a job that may be running is not submitted
 * elsewhere. A submission that was sent continues after its client disconnects.
 */
export async function submitSomewhere(submission: VideoSubmission): Promise<SubmittedJob> {
  const candidates = candidatesOf(submission.videoRequest)
  const { trace } = candidates
  let last: { channel: RelayChannel; failure: AttemptFailure } | undefined
  for (let step = candidates.next(); step !== undefined; step = candidates.next()) {
    const slot = await candidates.takeSlot(step)
    if (!slot) continue
    try {
      const result = await attempt(submission, { step, slot, candidates })
      if (result.kind === 'accepted' || result.kind === 'unanswered') return { ...result, trace }
      trace.failures.push(result.failure)
      last = { channel: step.channel, failure: result.failure }
      if (result.kind === 'refused') break
    } finally {
      await slot.end({ kind: 'client' })
    }
  }
  if (last) return { kind: 'failed', ...last, trace }
  throw candidates.noChannel()
}

type VideoAttempt = {
  readonly candidates: Pick<Candidates, 'note' | 'noteFailure'>
  readonly step: PlanStep<RelayChannel>
  readonly slot: AttemptSlot
}

async function attempt(
  { videoRequest, aim, onFlight }: VideoSubmission,
  { step, slot, candidates }: VideoAttempt,
): Promise<AcceptedJob | UnansweredJob | RejectedJob> {
  const { deps, response, ask } = videoRequest
  const { channel, sentModel } = step
  const prepared = await prepare(videoRequest, step)
  if ('isRetryable' in prepared) {
    slot.end(candidates.noteFailure(step, prepared))
    return { kind: prepared.isRetryable ? 'next' : 'refused', failure: prepared }
  }
  await aim({ channel, sentModel, access: prepared.access, kind: prepared.first.kind ?? '' })
  // If the client disconnected before anything was sent, it pays nothing and would never learn of the job.
  if (response.destroyed)
    throw new Refusal('request_timeout', 'The client disconnected before the job was sent.')
  const sentMs = deps.nowMs()
  onFlight(true)
  const judged = await sendOne(videoRequest, step, prepared, prepared.first)
  if (judged.kind === 'accepted') {
    candidates.note(step, judged.answer.status, sentMs)
    slot.end({ kind: 'ok' })
    return submitRest(videoRequest, step, prepared, judged)
  }
  if (judged.failure.answer) slot.end(candidates.noteFailure(step, judged.failure, sentMs))
  else {
    candidates.note(step, judged.failure.status || 'no answer', sentMs)
    slot.end(healthOutcome(judged.failure, undefined))
  }
  if (judged.kind === 'unanswered')
    return {
      kind: 'unanswered',
      channel,
      videos: Math.min(ask.n, prepared.most),
      reason: judged.failure.message,
    }
  onFlight(false)
  return { kind: judged.kind, failure: judged.failure }
}

type Prepared = {
  readonly dialect: VideoDialect
  readonly access: VendorAccess
  /** The number of videos that one call requests. */
  readonly most: number
  readonly first: Submission
  more(videos: number, reference?: string): Promise<Submission | AttemptFailure>
  /** The same for all calls of the attempt. */
  readonly headers: Readonly<Record<string, string>>
}

/** The submission for a channel, or the failure if the channel's own overrides reject it. */
async function prepare(
  videoRequest: VideoRequest,
  step: PlanStep<RelayChannel>,
): Promise<Prepared | AttemptFailure> {
  const { source, priced, route } = videoRequest
  const { channel, key, sentModel } = step
  const dialect = videoDialect(channel.provider, sentModel)
  if (!dialect) throw new Error('a channel without video jobs was chosen')
  const access = source?.access ?? accessOf(channel, key)
  const sentFields = pricedFields(videoRequest.ask.metadata, priced.granted(channel), dialect.usualModes)
  const ask = { ...videoRequest.ask, metadata: sentFields.fields, seconds: priced.secondsOn(channel) }
  const unpriced = unpricedWarnings(sentFields.removed)
  const lostContent = source ? undefined : videoRequest.work.lostContent?.(channel, sentModel)
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
    return overrideSubmission(warned, videoRequest, step, { seconds, videos: n })
  }
  const first = await more(Math.min(most, ask.n), videoRequest.videoId)
  if ('isRetryable' in first) return first
  const removed = videoRequest.ask.removed ?? []
  const warnings = [
    ...(removed.length > 0 ? [removedWarning(removed)] : []),
    ...(lostContent ? [`${lostContent.path}: ${lostContent.reason}: the others were left out`] : []),
    ...(first.warnings ?? []),
  ]
  const refusal = videoRequest.work.isStrict
    ? strictRefusal({ warnings, removed, ...(lostContent && { lostContent }) }, route.requestedModel)
    : undefined
  if (refusal) throw refusal
  const headers = {
    'x-client-request-id': videoRequest.requestId,
    ...videoRequest.report.span?.attemptHeaders(),
  }
  return { dialect, access, most, more, headers, first: { ...first, warnings } }
}

async function sendOne(
  { deps }: VideoRequest,
  { channel, sentModel }: PlanStep<RelayChannel>,
  { access, dialect, headers }: Prepared,
  submission: Submission,
): Promise<Judged> {
  try {
    const exchange = await deps.vendor.send(submission, { access, model: sentModel, headers })
    return judge(dialect, channel, await exchange.outcome, deps.nowMs())
  } catch (error) {
    if (!(error instanceof VendorError)) throw error
    // Nothing was sent: there was no address or no credential.
    const failure = { kind: 'failure', reason: 'connect', message: error.message, wasSent: false } as const
    return { kind: 'next', failure: connectionFailure(channel, failure) }
  }
}

/** Submits the remaining videos to a vendor that generates one per call. Those that it refuses are not charged. */
async function submitRest(
  videoRequest: VideoRequest,
  step: PlanStep<RelayChannel>,
  prepared: Prepared,
  { id, answer }: Extract<Judged, { kind: 'accepted' }>,
) {
  const { most, first } = prepared
  const counts: number[] = []
  for (let remaining = videoRequest.ask.n - most; remaining > 0; remaining -= most)
    counts.push(Math.min(most, remaining))
  const ids = [id]
  let videos = Math.min(most, videoRequest.ask.n)
  let unansweredVideos = 0
  let refused = 0
  async function lane(): Promise<void> {
    for (let count = counts.shift(); count !== undefined; count = counts.shift()) {
      const submission = await prepared.more(count)
      const isKept = 'isRetryable' in submission
      const judged = isKept
        ? ({ kind: 'refused', failure: submission } as const)
        : await sendOne(videoRequest, step, prepared, submission)
      if (judged.kind === 'accepted') {
        ids.push(judged.id)
        videos += count
      } else if (judged.kind === 'unanswered') unansweredVideos += count
      else refused += count
    }
  }
  await Promise.all(Array.from({ length: Math.min(AT_ONCE, counts.length) }, lane))
  const warnings = [
    ...(first.warnings ?? []),
    ...(refused + unansweredVideos > 0
      ? [`${refused + unansweredVideos} of ${videoRequest.ask.n} videos were not accepted by the provider`]
      : []),
  ]
  return { kind: 'accepted', step, ids, videos, unansweredVideos, warnings, answer } as const
}
