import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import { Refusal, wrongMethod } from '../domain/errors.ts'
import { shortageOf } from '../domain/shortage.ts'
import { createShare, endShare } from '../http/budget.ts'
import type { RelayIncoming, RelayListener, RelayOutgoing } from '../http/relay-exchange.ts'
import { createRequestIds } from '../http/request-id.ts'
import type { Hold } from '../ledger/ledger.ts'
import {
  answerJson,
  answerPreflight,
  answerRefusal,
  answerStored,
  commonHeaders,
  noSuchRoute,
} from './answer/answer.ts'
import { JSON_TYPE } from './answer/content-type.ts'
import { type ErrorFormat, relayErrorOf } from './answer/error-format.ts'
import { listFormat } from './answer/models.ts'
import { firstAnswer, type RelayOutcome } from './attempt.ts'
import { BodyCapture } from './bodies/capture.ts'
import { admit, credentialOf, type IdentifiedCaller } from './callers/admit.ts'
import { identify } from './callers/identify.ts'
import { conclude, settleUnconcluded } from './conclude.ts'
import { mustFitStrictly } from './eligibility.ts'
import { clientRefusal } from './gateway-failure.ts'
import { mustNotBeCrossSite } from './intake/cross-site.ts'
import { readRequest } from './intake/read-request.ts'
import { idempotencyKeyOf } from './intake/repeat.ts'
import { listModels } from './model-list.ts'
import { ERROR_FORMATS, operationAt } from './operations/index.ts'
import { changedWork, type OperationSpec } from './operations/operation.ts'
import { priceWork, type RequestPrice } from './price/price.ts'
import { tighterInputBound } from './price/usage-count.ts'
import { createRejectionRecorder, recordReplay } from './record-rejection.ts'
import type { RelayDeps, RelayRequest, RequestReport } from './request.ts'
import type { Videos } from './videos/videos.ts'

/** Handles one request: every step happens once, here, in this order. */
async function handleOperation(
  deps: RelayDeps,
  spec: OperationSpec,
  request: RelayIncoming,
  response: RelayOutgoing,
  report: RequestReport,
) {
  const { requestId, startedMs } = report
  const credential = credentialOf(request)
  const identifying = identify(deps, request, credential)
  const identified = identifying instanceof Promise ? await identifying : identifying
  report.caller = identified.caller
  const { logBodies } = identified.caller
  if (logBodies !== 'none') report.capture = new BodyCapture(logBodies, deps.memory)
  const share = createShare(deps.memory)
  try {
    const reading = readRequest(request, spec, deps, {
      share,
      isFunded: () => deps.ledger.canSpend(identified.caller.userId, identified.caller.tokenId),
      capture: report.capture,
    })
    const work = reading instanceof Promise ? await reading : reading
    report.work = work
    try {
      await handleIdentified({
        deps,
        spec,
        work,
        request,
        response,
        requestId,
        startedMs,
        credential,
        identified,
        share,
        report,
      })
    } finally {
      work.dispose?.()
    }
  } finally {
    endShare(share, response)
  }
}

type IncomingOperation = Pick<
  RelayRequest,
  'deps' | 'spec' | 'work' | 'response' | 'requestId' | 'startedMs' | 'share'
> & {
  readonly request: RelayIncoming
  readonly credential: string
  readonly identified: IdentifiedCaller
  readonly report: RequestReport
}

/** Handles a request whose caller is identified and whose body is read: admits it, prices it and serves it. */
function handleIdentified(incoming: IncomingOperation): Promise<void> {
  const { deps, work, credential, identified } = incoming
  // The caller's token may have changed while the body was read.
  const isCurrent = deps.directory.isCurrent(credential, identified.caller)
  const isUsual = isCurrent && !work.answer && !work.isStrict && !work.digest
  if (!isUsual) return handleUnusual(incoming, isCurrent)
  const route = admit(incoming, identified)
  return serve(incoming, { admitted: identified, route, priced: priceWork(deps.catalog, route, work) })
}

/** The same for a caller that has changed, a local answer, strict mode and an `Idempotency-Key`. */
async function handleUnusual(incoming: IncomingOperation, isCurrent: boolean): Promise<void> {
  const { deps, spec, work, response, requestId, request, credential, identified, report } = incoming
  const current = isCurrent ? identified : await identify(deps, request, credential)
  const route = admit(incoming, current)
  const priced = work.answer ? undefined : priceWork(deps.catalog, route, work)
  // The check needs prices: they decide which services and tools are sent to a channel.
  if (work.isStrict) await mustFitStrictly(route, { spec, work }, priced)
  if (priced === undefined) return answerLocally(incoming, current)
  const claim = work.digest && (await claimIdempotencyKey(incoming, current))
  if (claim && 'body' in claim) {
    if (claim.status >= 400) {
      const error = { status: claim.status, body: JSON.parse(claim.body.toString()) }
      recordReplay(deps, { request, report, caller: current.caller, error })
    }
    return answerStored(response, claim, { requestId, capture: report.capture })
  }
  try {
    await serve(incoming, {
      admitted: current,
      route,
      priced,
      ...(claim && { storeAnswer: claim.storeAnswer }),
    })
  } finally {
    // The response may have been sent, so this failure is not the request's.
    await claim?.end().catch(error => deps.onFailure(error, requestId))
  }
}

/** Answers without a provider. This is free, but counts against the limits. */
async function answerLocally(
  { deps, spec, work, response, requestId, report }: IncomingOperation,
  admitted: IdentifiedCaller,
): Promise<void> {
  const ticket = await admitted.enter(0)
  try {
    const answer = await work.answer?.(deps.counter)
    await ticket.end(0)
    if (response.destroyed) return
    const bytes = answerJson(response, 200, commonHeaders(requestId, spec.errorFormat), answer)
    report.capture?.answerType(JSON_TYPE)
    report.capture?.answer(bytes)
  } finally {
    await ticket.end(0)
  }
}

/** Only operations that compute a digest of their requests support `Idempotency-Key`. */
async function claimIdempotencyKey({ deps, work, request }: IncomingOperation, { caller }: IdentifiedCaller) {
  const key = idempotencyKeyOf(request)
  if (key === undefined || !work.digest) return undefined
  const path = `POST ${pathOf(request)}`
  return deps.idempotentRequests.begin({ userId: caller.userId, path, key }, await work.digest())
}

type RoutedRequest = Pick<RelayRequest, 'admitted' | 'route' | 'priced' | 'storeAnswer'>

/** Synchronous if this node has leased enough. */
const takeHold = (
  { deps, work, requestId }: IncomingOperation,
  { caller, address }: IdentifiedCaller,
  amount: number,
) =>
  deps.ledger.hold({
    rid: requestId,
    userId: caller.userId,
    tokenId: caller.tokenId,
    tokenName: caller.tokenName,
    model: work.model,
    amount,
    isStream: work.isStream,
    address,
  })

/** Bytes overestimate tokens. Before refusing for insufficient quota, the tokens are counted once, and the price is lower. */
async function priceOfCounted(
  { deps, work, credential }: IncomingOperation,
  { admitted, route }: RoutedRequest,
  error: unknown,
): Promise<RequestPrice> {
  const isShort = error instanceof Refusal && error.code === 'insufficient_quota'
  const inputTokens = isShort ? await tighterInputBound(deps.counter, work) : undefined
  // If the caller changed while the tokens were counted, the refusal stands and the client may retry.
  if (inputTokens === undefined || !deps.directory.isCurrent(credential, admitted.caller)) throw error
  return priceWork(deps.catalog, route, changedWork(work, { inputTokens }))
}

async function serve(incoming: IncomingOperation, routedRequest: RoutedRequest): Promise<void> {
  const { deps, spec, work, request, response, requestId, startedMs, credential, share, report } = incoming
  const { admitted, route } = routedRequest
  let { priced } = routedRequest
  const entering = admitted.enter(work.countedInput)
  const ticket = entering instanceof Promise ? await entering : entering
  try {
    let hold: Hold
    const holding = takeHold(incoming, admitted, priced.bound)
    if (holding instanceof Promise) {
      try {
        hold = await holding
      } catch (error) {
        priced = await priceOfCounted(incoming, routedRequest, error)
        hold = await takeHold(incoming, admitted, priced.bound)
      }
    } else hold = holding
    const relayRequest: RelayRequest = {
      deps,
      spec,
      work,
      route,
      priced,
      hold,
      response,
      requestId,
      startedMs,
      report,
      admitted,
      share,
      storeAnswer: routedRequest.storeAnswer,
    }
    let outcome: RelayOutcome | undefined
    try {
      // The token may have been deleted while the request waited for limits or a lease.
      if (!deps.directory.isCurrent(credential, admitted.caller)) await identify(deps, request, credential)
      outcome = await firstAnswer(relayRequest)
      await conclude(relayRequest, outcome, ticket)
    } catch (error) {
      if (outcome !== undefined) await settleUnconcluded(relayRequest, outcome, error)
      throw error
    } finally {
      report.hasLedgerRow = !hold.release()
    }
  } finally {
    // Only the first `end` counts. After an answer, `conclude` has already reported the tokens.
    const release = ticket.end(0)
    if (release) await release
  }
}

/** The path without its query, without repeated slashes and without a trailing slash. */
function pathOf({ url = '/' }: RelayIncoming): string {
  const query = url.indexOf('?')
  const path = query === -1 ? url : url.slice(0, query)
  if (!path.includes('//') && !path.endsWith('/')) return path
  return path.replace(/\/{2,}/g, '/').replace(/(.)\/$/, '$1')
}

/** A model name with an invalid percent escape matches no model. */
function modelIn(escaped: string | undefined): string | undefined {
  if (escaped === undefined) return undefined
  try {
    return decodeURIComponent(escaped)
  } catch {
    throw new Refusal('model_not_found', 'No such model.')
  }
}

const MESSAGES = /^\/v1\/messages\//
const GEMINI = /^\/v1beta\//

/** The error format of a path that is not an operation, such as a model list; undefined: the common format. */
function errorFormatAt(path: string, request: RelayIncoming): ErrorFormat | undefined {
  if (MESSAGES.test(path)) return ERROR_FORMATS.anthropic
  if (GEMINI.test(path)) return ERROR_FORMATS.gemini
  const format = MODELS.test(path) ? listFormat(request) : 'openai'
  return format === 'openai' || format === 'both' ? undefined : ERROR_FORMATS[format]
}

const MODELS = /^\/v1(?:beta)?\/models(?:\/(.+?))?\/?$/
const READS = ['GET', 'HEAD']
/** The content of a video: the only relay route that users open in a browser. */
const VIDEO_CONTENT = /^\/v1\/videos\/[^/]+\/content$/
const VIDEOS = /^\/v1\/video/
const BILLING = /^\/(v1\/)?dashboard\/billing\/(subscription|usage)$/

type FailedRequest = {
  readonly request: RelayIncoming
  readonly report: RequestReport
  readonly errorFormat: ErrorFormat | undefined
}

type RoutedPath = {
  readonly path: string
  readonly spec: OperationSpec | undefined
  /** The match of a path of model lists. */
  readonly models: RegExpExecArray | null
}

type Relay = {
  /** Serves all paths of the relay API. */
  readonly listener: RequestListener
  /** Serves all of them except the billing endpoints, over any HTTP server. */
  readonly serve: RelayListener
  /**
   * Resolves when no request runs. A request ends after its response: a rejected one is recorded then. `withinMs`: the
   * longest wait.
   */
  idle(withinMs: number): Promise<void>
}

/**
 * Routes the requests of the relay API: operations, model lists, video jobs and billing. An unknown route gets a JSON 404
 * in the error format of its path, never an HTML page.
 */
export function createRelay(deps: RelayDeps, videos: Pick<Videos, 'route'>): Relay {
  const newRequestId = createRequestIds()
  const recordRejection = createRejectionRecorder(deps)
  let running = 0
  let onIdle: (() => void) | undefined
  const fail = async (
    response: RelayOutgoing,
    error: unknown,
    { request, report, errorFormat }: FailedRequest,
  ) => {
    const { requestId } = report
    const shortage = shortageOf(error)
    if (shortage) deps.onShortage(shortage)
    const refusal = clientRefusal(error, requestId)
    if (refusal !== error && !shortage) deps.onFailure(error as Error, requestId)
    report.code = String(relayErrorOf(refusal).body.error.code ?? refusal.code)
    if (response.headersSent || response.destroyed) response.destroy()
    else answerRefusal(response, refusal, { errorFormat, requestId, capture: report.capture })
    if (!report.hasLedgerRow) await recordRejection(request, report, refusal)
  }

  function startReport(operation: string, span: RequestReport['span']): RequestReport {
    const startedMs = deps.nowMs()
    return {
      requestId: newRequestId(startedMs),
      operation,
      startedMs,
      startedAt: performance.now(),
      upstream: { gatewayMs: undefined, ms: 0, isStreamed: false },
      // All fields at once: V8 stores fields that are added later outside of the object.
      caller: undefined,
      work: undefined,
      hasLedgerRow: undefined,
      canaries: undefined,
      passedOver: undefined,
      settled: undefined,
      code: undefined,
      capture: undefined,
      span,
    }
  }

  /** Serves a request whose path belongs to the relay. */
  function route(
    incoming: RoutedPath & { readonly request: RelayIncoming; readonly response: RelayOutgoing },
    report: RequestReport,
  ): unknown {
    const { path, spec, models, request, response } = incoming
    const { requestId } = report
    if (spec || !VIDEO_CONTENT.test(path)) mustNotBeCrossSite(request)
    if (models) {
      if (!READS.includes(request.method ?? '')) {
        // A Gemini path with an unknown method after the model's name, such as `gemini-pro:unknown`, is no model path.
        if (request.method === 'POST' && path.includes(':')) throw noSuchRoute(request)
        throw wrongMethod(path, READS, request.method)
      }
      return listModels(deps, { request, response, id: modelIn(models[1]), requestId })
    }
    if (!spec) {
      const serveVideo = videos.route(path, request.method ?? '')
      if (!serveVideo) throw noSuchRoute(request)
      return serveVideo({ request, response, requestId, report })
    }
    if (request.method !== 'POST') throw wrongMethod(path, ['POST'], request.method)
    return handleOperation(deps, spec, request, response, report)
  }

  async function handle(request: RelayIncoming, response: RelayOutgoing): Promise<void> {
    const path = pathOf(request)
    if (request.method === 'OPTIONS') return answerPreflight(request, response, newRequestId(deps.nowMs()))
    const spec = operationAt(path, request.url)
    const models = spec ? null : MODELS.exec(path)
    const operation = spec?.operation ?? (models ? 'models' : VIDEOS.test(path) ? 'videos' : 'other')
    const report = startReport(operation, deps.startSpan?.(request))
    deps.onRequestStart()
    running += 1
    try {
      await route({ path, spec, models, request, response }, report)
    } catch (error) {
      const errorFormat = spec ? spec.errorFormat : errorFormatAt(path, request)
      await fail(response, error, { request, report, errorFormat }).catch(cause =>
        deps.onFailure(cause, report.requestId),
      )
    }
    try {
      deps.onRequestEnd(report, request, response)
    } catch (error) {
      deps.onFailure(error as Error, report.requestId)
    }
    running -= 1
    if (running === 0) onIdle?.()
  }

  const serve: RelayListener = (request, response) => void handle(request, response)

  async function idle(withinMs: number): Promise<void> {
    if (running === 0) return
    const { promise, resolve } = Promise.withResolvers<void>()
    const timer = setTimeout(resolve, withinMs)
    onIdle = resolve
    await promise
    clearTimeout(timer)
  }

  /** The billing endpoints belong to the management API, which logs its own requests. */
  async function handleBilling(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const report = startReport('other', undefined)
    try {
      mustNotBeCrossSite(request)
      deps.manage(request, response)
    } catch (error) {
      await fail(response, error, { request, report, errorFormat: undefined }).catch(cause =>
        deps.onFailure(cause, report.requestId),
      )
    }
  }

  return {
    listener(request, response) {
      if (request.method === 'OPTIONS' || !BILLING.test(pathOf(request))) serve(request, response)
      else void handleBilling(request, response)
    },
    serve,
    idle,
  }
}
