import type { EncodeOptions } from '../../chat/hub/format.ts'
import type { ChatRequest } from '../../chat/hub/hub.ts'
import { withClientPaths } from '../../chat/hub/lost-content.ts'
import { type FittedNames, fittedNames, withFittedNames } from '../../chat/hub/tools/fitted-names.ts'
import { outboundOf } from '../../chat/index.ts'
import type { When } from '../../domain/price.ts'
import { type LostContent, warningsHeader } from '../../domain/warning.ts'
import type { RequestedTools } from '../../requests/provider-tools.ts'
import { searchKindOf, type ToolTerms, withPaidTools } from './provider-tools.ts'
import type { RequestBody } from './request-reader.ts'
import { omittedServices, priceConditionsOf, serviceRequestsIn } from './services.ts'

/** The channel's part in translating a request. It is plain data, so that it can be posted to a worker thread. */
export type TranslationTarget = {
  readonly format: string
  readonly sentModel: string
  readonly options: EncodeOptions
  /**
   * Whether the answer is translated too, so that tool names can be restored. `if-tools-differ`: only if the tools of the
   * request had to be renamed or rewritten for the channel.
   */
  readonly answers: 'translated' | 'passed' | 'if-tools-differ'
  /** Whether the channel accepts the client's own bytes, if its answers need no translation. */
  readonly takesOwnBytes: boolean
  /** Whether the client requests a non-default service, or tools that the provider runs. */
  readonly hasServiceRequests: boolean
  readonly hasTools: boolean
  /** Absent: the request is only inspected, not sent. */
  readonly granted?: When | undefined
  readonly toolTerms?: ToolTerms | undefined
  /** Members that the provider's file and the channel's override set in the body. */
  readonly members: RequestBody
}

export type TranslatedRequest = {
  readonly body: Buffer
  readonly headers?: Readonly<Record<string, string>>
  readonly warnings?: readonly string[]
  readonly lostContent?: LostContent
  readonly services?: When
  readonly tools?: RequestedTools
  readonly isAnswerTranslated: boolean
  readonly names: FittedNames | undefined
  /** The request as answers repeat its fields. */
  readonly requestEcho: ChatRequest
}

function isAnswerTranslated(request: ChatRequest, { answers, format }: TranslationTarget): boolean {
  if (answers !== 'if-tools-differ') return answers === 'translated'
  return request.isFirstForm === true || fittedNames(request, format) !== undefined
}

/** Translates the request into the channel's format; undefined: the client's own bytes can be sent. */
export function translateRequest(
  request: ChatRequest,
  target: TranslationTarget,
): TranslatedRequest | undefined {
  const upstream = outboundOf(target.format)
  if (upstream === undefined) throw new Error(`no such format: ${target.format}`)
  const isTranslated = isAnswerTranslated(request, target)
  if (!isTranslated && target.takesOwnBytes) return undefined
  const names = isTranslated ? fittedNames(request, target.format) : undefined
  const fittedRequest = withFittedNames(request, names)
  const { body, warnings, headers } = upstream.encodeRequest(
    { ...fittedRequest, model: target.sentModel },
    target.options,
  )
  const serviceRequests = serviceRequestsIn(body)
  const omitted = omittedServices(serviceRequests, target.granted)
  const paid = target.hasTools ? withPaidTools(body, upstream.turns, target.toolTerms) : undefined
  const sentRequests = serviceRequests.filter(({ name }) => !(omitted && name in omitted.edits))
  const services = target.hasServiceRequests
    ? (priceConditionsOf(sentRequests, paid && searchKindOf(paid.tools)) ?? {})
    : undefined
  const reported = withClientPaths(request, warnings)
  const lost = reported.find(({ lostContent }) => lostContent !== undefined)
  const losses = [
    ...(reported.length > 0 ? [warningsHeader(reported)] : []),
    ...(omitted ? [omitted.warnings] : []),
    ...(paid?.warnings ?? []),
  ]
  return {
    body: Buffer.from(JSON.stringify({ ...(paid?.body ?? body), ...omitted?.edits, ...target.members })),
    ...(headers && { headers }),
    ...(losses.length > 0 && { warnings: losses }),
    ...(lost && { lostContent: { path: lost.field, reason: lost.lostContent ?? lost.message } }),
    ...(services && { services }),
    ...(paid && { tools: paid.tools }),
    isAnswerTranslated: isTranslated,
    names,
    requestEcho: requestEchoOf(request, services),
  }
}

/** The request without its conversation, and without a service that the channel was not sent. */
function requestEchoOf(request: ChatRequest, services: When | undefined): ChatRequest {
  const { serviceTier, ...rest } = request
  const isServed = services?.service_tier !== undefined && serviceTier !== undefined
  return { ...rest, messages: [], ...(isServed && { serviceTier }) }
}
