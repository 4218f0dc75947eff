import { OPERATIONS } from '../domain/operation.ts'
import type { RelayIncoming, RelayOutgoing } from '../http/relay-exchange.ts'
import type { Provider } from '../providers/provider.ts'
import type { KeptBodies } from '../relay/bodies/bodies.ts'
import type { RelayChannel } from '../relay/catalog/catalog.ts'
import type { EndedAttempt, RequestReport, RequestSpan } from '../relay/request.ts'
import {
  type AttributeKey,
  type AttributeList,
  type AttributeValue,
  attributeKey,
  SPAN_KIND,
  type Span,
} from '../telemetry/span.ts'
import {
  createTraceIds,
  openTrace,
  type Sampler,
  type TraceContext,
  traceparentOf,
} from '../telemetry/trace-context.ts'
import { CLIENT_LEFT, statusOf } from './metrics.ts'
import { spanMessages } from './span-messages.ts'

/** The attributes of spans (docs/reference/tracing.md: Spans), by the GenAI and HTTP conventions of OpenTelemetry. */
const KEY = {
  operation: attributeKey('gen_ai.operation.name'),
  provider: attributeKey('gen_ai.provider.name'),
  model: attributeKey('gen_ai.request.model'),
  isStream: attributeKey('gen_ai.request.stream', 'bool'),
  firstChunkS: attributeKey('gen_ai.response.time_to_first_chunk', 'double'),
  inputTokens: attributeKey('gen_ai.usage.input_tokens', 'int'),
  outputTokens: attributeKey('gen_ai.usage.output_tokens', 'int'),
  cacheReadTokens: attributeKey('gen_ai.usage.cache_read.input_tokens', 'int'),
  cacheWriteTokens: attributeKey('gen_ai.usage.cache_write.input_tokens', 'int'),
  reasoningTokens: attributeKey('gen_ai.usage.reasoning.output_tokens', 'int'),
  inputMessages: attributeKey('gen_ai.input.messages'),
  outputMessages: attributeKey('gen_ai.output.messages'),
  errorType: attributeKey('error.type'),
  method: attributeKey('http.request.method'),
  path: attributeKey('url.path'),
  status: attributeKey('http.response.status_code', 'int'),
  resendCount: attributeKey('http.request.resend_count', 'int'),
  serverAddress: attributeKey('server.address'),
  serverPort: attributeKey('server.port', 'int'),
  userId: attributeKey('user.id'),
  requestId: attributeKey('sluice.request.id'),
  tokenId: attributeKey('sluice.token.id', 'int'),
  channelId: attributeKey('sluice.channel.id', 'int'),
  costUsd: attributeKey('sluice.cost_usd', 'double'),
  attempts: attributeKey('sluice.attempts', 'int'),
  providerCode: attributeKey('sluice.provider.error_code'),
  providerRequestId: attributeKey('sluice.provider.request_id'),
}

const MAX_TEXT = 255

/** Operations that the conventions name differently. */
const OPERATION_NAMES: Readonly<Record<string, string>> = { completions: 'text_completion' }

/** The value of `gen_ai.operation.name`. */
export const operationName = (operation: string) => OPERATION_NAMES[operation] ?? operation

/** Lists of models and reads of video jobs are not calls of a model. */
const isModelCall = (operation: string, work: RequestReport['work']) =>
  operation === 'videos' ? work !== undefined : (OPERATIONS as readonly string[]).includes(operation)

/** The value of `gen_ai.provider.name`. */
export const providerName = ({ telemetryName, name }: Provider) =>
  telemetryName ?? name.toLowerCase().replaceAll(' ', '_')

const portOf = ({ port, protocol }: URL) => (port === '' ? (protocol === 'http:' ? 80 : 443) : Number(port))

/** The name and port of a channel's server. */
function addressAttributes({ baseUrl }: RelayChannel): AttributeList {
  const url = URL.parse(baseUrl)
  return url ? [KEY.serverAddress, url.hostname, KEY.serverPort, portOf(url)] : []
}

const MAX_SHARED = 1_000

/** The attributes that spans of one channel have in common. They are most of a span, and encoded once. */
function createSharedAttributes() {
  const byChannel = new WeakMap<RelayChannel, Map<string, AttributeList>>()
  return (channel: RelayChannel, key: string, create: () => AttributeList): AttributeList => {
    let lists = byChannel.get(channel)
    if (!lists) {
      lists = new Map()
      byChannel.set(channel, lists)
    }
    const cached = lists.get(key)
    if (cached) return cached
    if (lists.size >= MAX_SHARED) lists.clear()
    const attributes = create()
    lists.set(key, attributes)
    return attributes
  }
}

/** What the spans of attempts of one model on a channel have in common. */
type AttemptPart = {
  readonly operation: string
  readonly sentModel: string
  readonly name: string
  readonly attributes: AttributeList
}

/** What the spans of requests for one model on one path have in common. */
type RequestPart = {
  readonly operation: string
  readonly url: string | undefined
  readonly model: string | undefined
  readonly isStream: boolean | undefined
  /** With the model. */
  readonly name: string
  readonly attributes: AttributeList
}

type TracedRequest = RequestSpan & {
  readonly context: TraceContext
  /** With the ids of their spans. */
  readonly attempts: readonly (EndedAttempt & { readonly spanId: string })[]
}

type AttributeBuilder = (AttributeKey | AttributeValue)[]

/** A status, or the kind of failure: `timeout`, `connect`. */
function attemptError({ status, failure }: EndedAttempt): string | undefined {
  if (typeof status === 'number') return status < 400 ? failure : String(status)
  return failure ?? status
}

/** Traces the requests of the relay API: a span for each request, and one for each attempt. */
export function createTracing(sampler: Sampler, add: (span: Span) => void) {
  const ids = createTraceIds()
  const shared = createSharedAttributes()
  // The last ones of each channel: most requests of a channel are alike, and to compare them is faster than to look them up.
  const attemptParts = new WeakMap<RelayChannel, AttemptPart>()
  const requestParts = new WeakMap<RelayChannel, RequestPart>()

  function startSpan({ headers }: RelayIncoming): TracedRequest {
    const context = openTrace(headers, sampler, ids)
    const { traceId, isSampled, state } = context
    const attempts: (EndedAttempt & { readonly spanId: string })[] = []
    let next: string | undefined
    return {
      context,
      attempts,
      attemptHeaders() {
        next = ids.newSpanId()
        const traceparent = traceparentOf(traceId, next, isSampled)
        return state === undefined ? { traceparent } : { traceparent, tracestate: state }
      },
      endAttempt(attempt) {
        if (isSampled) attempts.push({ ...attempt, spanId: next ?? ids.newSpanId() })
        next = undefined
      },
    }
  }

  function attemptPart(operation: string, channel: RelayChannel, sentModel: string): AttemptPart {
    const last = attemptParts.get(channel)
    if (last && last.operation === operation && last.sentModel === sentModel) return last
    const model = sentModel.slice(0, MAX_TEXT)
    const name = `${operation} ${model}`
    const attributes = shared(channel, name, () => [
      KEY.operation,
      operation,
      KEY.provider,
      providerName(channel.provider),
      KEY.model,
      model,
      KEY.channelId,
      channel.id,
      ...addressAttributes(channel),
    ])
    const part = { operation, sentModel, name, attributes }
    attemptParts.set(channel, part)
    return part
  }

  function addAttempt(traced: TracedRequest, index: number, request: { operation: string; endMs: number }) {
    const attempt = traced.attempts[index]
    if (!attempt) return
    const { step, status, provider } = attempt
    const part = attemptPart(request.operation, step.channel, step.sentModel)
    const attributes: AttributeBuilder = []
    if (typeof status === 'number') attributes.push(KEY.status, status)
    if (index > 0) attributes.push(KEY.resendCount, index)
    const error = attemptError(attempt)
    if (error !== undefined) attributes.push(KEY.errorType, error.slice(0, MAX_TEXT))
    if (provider?.code !== undefined) attributes.push(KEY.providerCode, provider.code.slice(0, MAX_TEXT))
    if (provider?.request_id !== undefined) attributes.push(KEY.providerRequestId, provider.request_id)
    const { traceId, spanId, state } = traced.context
    // The last attempt without an error delivers the answer until the request ends.
    const isDelivering = error === undefined && index === traced.attempts.length - 1
    add({
      traceId,
      spanId: attempt.spanId,
      parentSpanId: spanId,
      traceState: state,
      name: part.name,
      kind: SPAN_KIND.client,
      startMs: attempt.sentMs,
      endMs: isDelivering ? request.endMs : attempt.endedMs,
      attributes,
      shared: part.attributes,
      error,
    })
  }

  function pushUsage(attributes: AttributeBuilder, { settled, work }: RequestReport): void {
    if (!settled) return
    const { channelId, paid, log } = settled
    const { frt, cache_tokens, cache_write_tokens, reasoning_tokens } = log.other as Partial<
      Readonly<Record<string, number>>
    >
    attributes.push(KEY.channelId, channelId, KEY.costUsd, paid / 1e9)
    attributes.push(KEY.inputTokens, log.promptTokens, KEY.outputTokens, log.completionTokens)
    if (cache_tokens !== undefined) attributes.push(KEY.cacheReadTokens, cache_tokens)
    if (cache_write_tokens !== undefined) attributes.push(KEY.cacheWriteTokens, cache_write_tokens)
    if (reasoning_tokens !== undefined) attributes.push(KEY.reasoningTokens, reasoning_tokens)
    if (work?.isStream && frt !== undefined) attributes.push(KEY.firstChunkS, frt / 1000)
  }

  function pushMessages(attributes: AttributeBuilder, bodies: KeptBodies): void {
    const { input, output } = spanMessages(bodies)
    if (input !== undefined) attributes.push(KEY.inputMessages, input)
    if (output !== undefined) attributes.push(KEY.outputMessages, output)
  }

  function requestPart(
    report: RequestReport,
    request: RelayIncoming,
    channel: RelayChannel | undefined,
  ): RequestPart {
    const { operation, work } = report
    const { url } = request
    const last = channel && requestParts.get(channel)
    if (
      last &&
      last.operation === operation &&
      last.url === url &&
      last.model === work?.model &&
      last.isStream === work?.isStream
    )
      return last
    const part = {
      operation,
      url,
      model: work?.model,
      isStream: work?.isStream,
      name: `${operationName(operation)} ${work?.model.slice(0, MAX_TEXT)}`,
      attributes: requestAttributes(report, request, channel),
    }
    if (channel) requestParts.set(channel, part)
    return part
  }

  function requestAttributes(
    { operation, work }: RequestReport,
    { method = '', url = '/' }: RelayIncoming,
    channel: RelayChannel | undefined,
  ): AttributeList {
    const path = (url.split('?', 1)[0] as string).slice(0, MAX_TEXT)
    const model = work?.model.slice(0, MAX_TEXT)
    const create = () => {
      const attributes: AttributeBuilder = []
      if (isModelCall(operation, work)) attributes.push(KEY.operation, operationName(operation))
      if (channel) attributes.push(KEY.provider, providerName(channel.provider))
      if (model !== undefined) attributes.push(KEY.model, model)
      if (work) attributes.push(KEY.isStream, work.isStream)
      attributes.push(KEY.method, method, KEY.path, path)
      return attributes
    }
    // The model and the path of a request that was not sent may be any text.
    return channel ? shared(channel, `${work?.isStream}\n${path}\n${model}`, create) : create()
  }

  return {
    startSpan,

    /** `bodies`: the bodies of the request, if they are kept. */
    onRequestEnd(
      report: RequestReport,
      request: RelayIncoming,
      response: RelayOutgoing,
      bodies: KeptBodies | undefined,
    ): void {
      const traced = report.span as TracedRequest | undefined
      if (!traced?.context.isSampled) return
      const { requestId, startedMs, startedAt, caller, work, settled } = report
      const { context, attempts } = traced
      const operation = operationName(report.operation)
      const last = attempts.at(-1)
      // The times of attempts are whole milliseconds, so the last one may seem to end after the request.
      const endMs = Math.max(startedMs + performance.now() - startedAt, last?.endedMs ?? 0)
      for (let index = 0; index < attempts.length; index++) addAttempt(traced, index, { operation, endMs })
      const status = statusOf(response)
      const attributes: AttributeBuilder = []
      if (status !== CLIENT_LEFT) attributes.push(KEY.status, status)
      attributes.push(KEY.requestId, requestId)
      if (caller) attributes.push(KEY.userId, String(caller.userId), KEY.tokenId, caller.tokenId)
      if (attempts.length > 0) attributes.push(KEY.attempts, attempts.length)
      pushUsage(attributes, report)
      if (bodies) pushMessages(attributes, bodies)
      const code = errorOf(report, status)
      if (code !== undefined) attributes.push(KEY.errorType, code.slice(0, MAX_TEXT))
      const part = requestPart(report, request, last?.step.channel)
      add({
        traceId: context.traceId,
        spanId: context.spanId,
        parentSpanId: context.parentSpanId,
        traceState: context.state,
        // A model that is not served may be any text, and backends group spans by name.
        name: settled && work ? part.name : operation,
        kind: SPAN_KIND.server,
        startMs: startedMs,
        endMs,
        attributes,
        shared: part.attributes,
        // By the HTTP conventions, a 4xx is no error of the server.
        error: status >= 500 || (status < 400 && settled?.log.isError) ? code : undefined,
      })
    },
  }
}

function errorOf({ code, settled }: RequestReport, status: number): string | undefined {
  const errorCode = code ?? settled?.log.other.error_code
  if (errorCode !== undefined) return String(errorCode)
  return status >= 400 ? String(status) : undefined
}

export type Tracing = ReturnType<typeof createTracing>
