import { Refusal } from '../../domain/errors.ts'
import { type FirstRequest, idempotencyConflict, replay } from '../../domain/idempotency.ts'
import { usdText } from '../../domain/money.ts'
import { EMPTY } from '../../domain/usage.ts'
import { RESULT_LIFETIME_S } from '../../domain/video.ts'
import { createShare, type Share } from '../../http/budget.ts'
import { refusalOfError, relayError } from '../../http/errors.ts'
import type { RelayIncoming, RelayOutgoing } from '../../http/relay-exchange.ts'
import { newVideoId } from '../../identity/credentials.ts'
import type { Hold } from '../../ledger/ledger.ts'
import { factsOf, sizeText } from '../../media/video.ts'
import type { Ticket } from '../../routing/rates.ts'
import type { VideoRow } from '../../store/engine/schema.ts'
import {
  dropVideo,
  findRepeated,
  insertVideo,
  saveVideoAnswer,
  setVideoTarget,
  suspendVideo,
} from '../../store/records/videos.ts'
import { answerJson, commonHeaders } from '../answer/answer.ts'
import type { RelayError } from '../answer/error-format.ts'
import { upstreamError } from '../answer/upstream-error.ts'
import { admit, credentialOf, type IdentifiedCaller } from '../callers/admit.ts'
import { identify } from '../callers/identify.ts'
import { answerHeaders } from '../conclude.ts'
import { readRequest } from '../intake/read-request.ts'
import { recordReplay } from '../record-rejection.ts'
import type { RequestReport } from '../request.ts'
import { errorCodeOf, settle } from '../settlement.ts'
import { refusalFor } from '../upstream/all-failed.ts'
import { upstreamIdOf } from '../upstream/provider-report.ts'
import { type PlannedSubmission, type SubmittedJob, submitSomewhere, type VideoRequest } from './attempt.ts'
import type { VideoDeps } from './deps.ts'
import { priceVideo } from './price.ts'
import { repeatKeyOf, type VideoWork, videoSpec } from './request.ts'
import type { SuspenseBook } from './suspense.ts'
import { sealAccess } from './vendor.ts'
import { presentVideo } from './video-view.ts'

type SubmitRequest = {
  readonly request: RelayIncoming
  readonly response: RelayOutgoing
  readonly requestId: string
  readonly report: RequestReport
  readonly path: string
  readonly spec: Pick<typeof videoSpec, 'read' | 'readForm' | 'names'>
  /** The response has `task_id` beside `id`. */
  readonly isTask: boolean
  readonly identified: IdentifiedCaller
  /** The source job of a remix. */
  readonly remix?: { readonly of: string } & NonNullable<VideoRequest['source']>
}

type Answer = { readonly status: number; readonly body: unknown }

/** The provider may already run the job, so SDKs must not retry by themselves. */
const AFTER_DISPATCH = { 'x-should-retry': 'false' }

let sequence = 0

/** Submits video jobs: the cost is held before the request is sent, and charged once when the provider accepts the job. */
export function createSubmit(
  deps: VideoDeps,
  suspense: SuspenseBook,
  baseOf: (request: RelayIncoming) => string,
) {
  const { db, nowMs } = deps
  const nowS = () => Math.floor(nowMs() / 1000)
  const running = new Set<Promise<void>>()

  function newRow(
    submission: SubmitRequest,
    work: VideoWork,
    admitted: IdentifiedCaller,
    repeat: Repeat | undefined,
  ): VideoRow {
    const time = nowS()
    const { caller } = admitted
    return {
      id: newVideoId(),
      // Preserves the order of jobs within one millisecond.
      seq: nowMs() * 1_000 + (sequence++ % 1_000),
      request_id: submission.requestId,
      user_id: caller.userId,
      token_id: caller.tokenId,
      token_name: caller.tokenName,
      model: work.model,
      sent_model: work.model,
      channel_id: 0,
      channel_type: 0,
      access_sealed: '',
      kind: '',
      upstream_id: null,
      upstream_more: '[]',
      parameters: JSON.stringify(factsOf(work.ask, work.ask.seconds)),
      remixed_from: submission.remix?.of ?? null,
      phase: 'submitting',
      node_id: deps.nodeId,
      status: 'queued',
      progress: 0,
      states: JSON.stringify({ queued: time }),
      seconds: work.ask.seconds === undefined ? '' : String(work.ask.seconds),
      size: sizeText(work.ask) ?? '',
      results: '[]',
      error_code: null,
      error_message: null,
      cost: 0,
      estimate: 0,
      price: '',
      created_time: time,
      started_time: null,
      completed_time: null,
      expires_time: time + RESULT_LIFETIME_S,
      next_poll_ms: 0,
      polled_ms: 0,
      misses: 0,
      poll_error: '',
      lease_until_ms: 0,
      lease_by: '',
      repeat_key: repeat?.key ?? null,
      repeat_digest: repeat?.digest ?? null,
      answer: null,
      refunded_time: null,
      refunded_by: null,
      refund_reason: null,
      deleted_time: null,
    }
  }

  type Repeat = { readonly key: string; readonly digest: string }

  const viewOf = (submission: SubmitRequest, row: VideoRow) => ({
    ...presentVideo(row, baseOf(submission.request)),
    ...(submission.isTask && { task_id: row.id }),
  })

  function firstAnswer(submission: SubmitRequest, row: VideoRow): FirstRequest<Answer>['response'] {
    if (row.answer !== null) return JSON.parse(row.answer) as Answer
    return row.phase === 'submitting' ? 'still-running' : { status: 200, body: viewOf(submission, row) }
  }

  function answerRepeated(submission: SubmitRequest, row: VideoRow, { digest }: Repeat): void {
    const saved = replay(
      { bodyDigest: row.repeat_digest ?? '', response: firstAnswer(submission, row) },
      digest,
    )
    const failed = saved.status === 200 ? {} : AFTER_DISPATCH
    if (saved.status >= 400) {
      const { request, report, identified } = submission
      const error = { status: saved.status, body: saved.body as RelayError['body'] }
      recordReplay(deps, { request, report, caller: identified.caller, error })
    }
    const videoHeader = row.deleted_time === null ? { 'x-sluice-video-id': row.id } : {}
    answerJson(
      submission.response,
      saved.status,
      { ...commonHeaders(submission.requestId), ...videoHeader, ...failed, 'idempotency-replayed': 'true' },
      saved.body,
    )
  }

  /** The row itself claims the key: a second request finds it even if the first one fails. */
  async function insert(
    submission: SubmitRequest,
    row: VideoRow,
    repeat: Repeat | undefined,
  ): Promise<boolean> {
    if (await insertVideo(db, row)) return true
    const first = repeat && (await findRepeated(db, { userId: row.user_id, key: repeat.key, now: nowS() }))
    if (!first) throw idempotencyConflict('still-running')
    answerRepeated(submission, first, repeat)
    return false
  }

  async function submit(submission: SubmitRequest): Promise<void> {
    const share = createShare(deps.memory)
    const { userId, tokenId } = submission.identified.caller
    try {
      const isFunded = () => deps.ledger.canSpend(userId, tokenId)
      const work = await readRequest(submission.request, submission.spec, deps, { share, isFunded })
      submission.report.work = work
      submission.report.caller = submission.identified.caller
      try {
        await submitRead(submission, work, share)
      } finally {
        work.dispose?.()
      }
    } finally {
      share.end()
    }
  }

  async function submitRead(submission: SubmitRequest, work: VideoWork, share: Share): Promise<void> {
    const { request, identified } = submission
    const credential = credentialOf(request)
    const isCurrent = () => deps.directory.isCurrent(credential, identified.caller)
    const admitted = isCurrent() ? identified : await identify(deps, request, credential)
    const key = repeatKeyOf(request, submission.path)
    const repeat = key === undefined ? undefined : { key, digest: await work.digest() }
    const first =
      repeat && (await findRepeated(db, { userId: admitted.caller.userId, key: repeat.key, now: nowS() }))
    if (first) return answerRepeated(submission, first, repeat)

    const route = admit({ deps, work, report: submission.report }, admitted)
    const priced = priceVideo(deps.catalog, route, work)
    const ticket = await admitted.enter(0)
    try {
      const row = newRow(submission, work, admitted, repeat)
      if (!(await insert(submission, row, repeat))) return
      const admittedJob = {
        given: submission,
        work,
        admitted,
        route,
        priced,
        row,
        ticket,
        share,
        startedMs: nowMs(),
      }
      await submitHeld(admittedJob)
    } finally {
      await ticket.end(0)
    }
  }

  type AdmittedJob = {
    readonly given: SubmitRequest
    readonly work: VideoWork
    readonly admitted: IdentifiedCaller
    readonly route: VideoRequest['route']
    readonly priced: VideoRequest['priced']
    readonly row: VideoRow
    readonly ticket: Ticket
    readonly share: Share
    readonly startedMs: number
  }

  async function submitHeld(admittedJob: AdmittedJob): Promise<void> {
    const { given: submission, work, admitted, route, priced, ticket, startedMs } = admittedJob
    const { request, response, requestId, report, remix } = submission
    let row = admittedJob.row
    let hold: Hold | undefined
    let isInFlight = false
    let channelId = 0
    try {
      hold = await deps.ledger.hold({
        rid: requestId,
        userId: admitted.caller.userId,
        tokenId: admitted.caller.tokenId,
        tokenName: admitted.caller.tokenName,
        model: work.model,
        amount: priced.bound,
        isStream: false,
        address: admitted.address,
        videoId: row.id,
      })
      // The token may have been deleted in the meantime.
      if (!deps.directory.isCurrent(credentialOf(request), admitted.caller))
        await identify(deps, request, credentialOf(request))
      const placedHold = hold
      const videoRequest: VideoRequest = {
        deps,
        spec: videoSpec,
        work,
        route,
        priced,
        hold,
        response,
        requestId,
        startedMs,
        report,
        admitted,
        share: admittedJob.share,
        ask: work.ask,
        videoId: row.id,
        ...(remix && { source: remix }),
      }
      const submitted = await submitSomewhere({
        videoRequest,
        async aim(planned) {
          row = { ...row, ...destinationOf(videoRequest, row.id, planned) }
          channelId = planned.channel.id
          await setVideoTarget(db, row.id, destinationOf(videoRequest, row.id, planned))
          await placedHold.attempt(planned.channel.id, priced.estimate(planned.channel))
        },
        onFlight(now) {
          isInFlight = now
        },
      })
      await ticket.end(0)
      if (submitted.kind === 'accepted') await accept(videoRequest, submission, row, submitted)
      else if (submitted.kind === 'unanswered') await suspend(videoRequest, submission, row, submitted)
      else await fail(videoRequest, submission, row, submitted)
    } catch (error) {
      // The outcome of a submission in flight is unknown, unless the job has been settled.
      if (!isInFlight)
        await dropVideo(db, row.id, undefined, nowS()).catch(lost =>
          deps.onProblem(lost, 'A video job that was not sent could not be removed.', row.id),
        )
      else
        await hold?.settle({
          channelId,
          cost: 0,
          suspense: [
            { channelId, amount: row.estimate, reason: 'The gateway failed after the video job was sent.' },
          ],
          log: {
            tokenName: row.token_name,
            model: row.model,
            promptTokens: 0,
            completionTokens: 0,
            useTimeMs: nowMs() - startedMs,
            isStream: false,
            address: admitted.address,
            isError: true,
            content: 'The gateway failed after the video job was sent.',
            upstreamRequestId: '',
            other: {
              source: 'zero',
              video_id: row.id,
              error_code: relayError(refusalOfError(error, requestId)).code,
            },
          },
          video: { id: row.id, outcome: 'doubt' },
        })
      throw error
    } finally {
      report.hasLedgerRow = isInFlight || hold?.release() === false
    }
  }

  function destinationOf(
    { deps: { keyring }, ask, priced }: VideoRequest,
    id: string,
    planned: PlannedSubmission,
  ) {
    const { channel, sentModel, access, kind } = planned
    const seconds = priced.secondsOn(channel)
    const price = priced.priceFor(channel)
    return {
      channel_id: channel.id,
      channel_type: channel.type,
      sent_model: sentModel,
      access_sealed: sealAccess(keyring, id, access),
      kind,
      estimate: priced.estimate(channel),
      price: price ? `${price.model} ${price.version}` : '',
      seconds: seconds === undefined ? '' : String(seconds),
      parameters: JSON.stringify(factsOf(ask, seconds)),
    }
  }

  type Of<Kind extends SubmittedJob['kind']> = Extract<SubmittedJob, { kind: Kind }>

  async function accept(
    videoRequest: VideoRequest,
    submission: SubmitRequest,
    row: VideoRow,
    submitted: Of<'accepted'>,
  ) {
    const { priced, response } = videoRequest
    const { step, ids, videos, unansweredVideos, trace, answer } = submitted
    const { channel } = step
    const costOf = (count: number) => priced.costOf(channel, priced.usageOn(channel, count))
    // Not the cost of the unanswered videos alone: the input images of a request are charged once.
    const amount = costOf(videos + unansweredVideos) - costOf(videos)
    const { paid } = await settle(videoRequest, {
      channel,
      usage: priced.usageOn(channel, videos),
      source: 'provider',
      trace,
      upstreamRequestId: upstreamIdOf(answer.headers, channel),
      suspense:
        unansweredVideos > 0
          ? [
              {
                channelId: channel.id,
                amount,
                reason: 'The provider did not confirm some videos of the job.',
              },
            ]
          : [],
      video: { id: row.id, outcome: 'accepted', upstreamIds: ids },
    })
    const body = viewOf(submission, row)
    // The settlement is in the journal. The row is updated when the store is reachable again.
    await Promise.all([
      deps.ledger.barrier(),
      saveVideoAnswer(db, row.id, JSON.stringify({ status: 200, body } satisfies Answer)),
    ]).catch(error =>
      deps.onProblem(
        error as Error,
        'A video job could not be saved. The journal has it until the store is available.',
        row.id,
      ),
    )
    if (response.destroyed) return
    answerJson(
      response,
      200,
      {
        ...answerHeaders(videoRequest, submitted.step, submitted.warnings),
        'x-sluice-cost': usdText(paid),
        'x-sluice-video-id': row.id,
      },
      body,
    )
  }

  async function suspend(
    videoRequest: VideoRequest,
    submission: SubmitRequest,
    row: VideoRow,
    submitted: Of<'unanswered'>,
  ) {
    const { channel, videos, reason, trace } = submitted
    const refusal = new Refusal(
      'upstream_timeout',
      `The provider did not confirm the job. The gateway searches for it; check GET /v1/videos/${row.id}.`,
    )
    const { status, body } = relayError(refusal)
    submission.report.code = refusal.code
    suspense.keep({ videoRequest, row, channel, videos, reason, trace })
    await suspendVideo(db, row.id, JSON.stringify({ status, body } satisfies Answer)).catch(error =>
      deps.onProblem(
        error,
        'An unresolved charge could not be saved. The journal has it until the store is available.',
        row.id,
      ),
    )
    const { response, requestId } = submission
    if (response.destroyed) return
    answerJson(
      response,
      status,
      { ...commonHeaders(requestId), ...AFTER_DISPATCH, 'x-sluice-video-id': row.id },
      body,
    )
  }

  async function fail(
    videoRequest: VideoRequest,
    submission: SubmitRequest,
    row: VideoRow,
    submitted: Of<'failed'>,
  ) {
    const { channel, failure, trace } = submitted
    // Problems between the gateway and the provider are not forwarded to the client.
    const isOurs = failure.health.kind === 'auth' || failure.status === 402 || failure.status === 429
    const forwarded = !isOurs && failure.answer ? upstreamError(failure.answer, channel) : undefined
    const refusal = refusalFor(trace.failures, {
      exposesMessages: videoRequest.deps.catalog.settings().expose_provider_messages,
    })
    await settle(videoRequest, {
      channel,
      usage: EMPTY,
      source: 'zero',
      trace,
      error: forwarded?.message ?? refusal.message,
      errorCode: errorCodeOf(refusal, forwarded),
    })
    const gatewayError = relayError(refusal)
    const answer: Answer = forwarded ? { status: forwarded.status, body: forwarded.body } : gatewayError
    const wasSent = trace.failures.some(({ kind }) => kind === 'status')
    const saved =
      row.repeat_key !== null && wasSent
        ? JSON.stringify({ status: answer.status, body: answer.body })
        : undefined
    await dropVideo(db, row.id, saved, nowS())
    const { response, requestId } = submission
    if (response.destroyed) return
    const retry = wasSent && answer.status !== 429 ? AFTER_DISPATCH : {}
    const headers = { ...commonHeaders(requestId), ...(forwarded ? {} : gatewayError.headers), ...retry }
    answerJson(response, answer.status, headers, answer.body)
  }

  return {
    submit(submission: SubmitRequest): Promise<void> {
      const submitting = submit(submission).finally(() => running.delete(submitting))
      running.add(submitting)
      return submitting
    },
    /** Resolves when no submission is running. A submission continues after its client disconnects. */
    settled: async (): Promise<void> => void (await Promise.allSettled(running)),
  }
}
