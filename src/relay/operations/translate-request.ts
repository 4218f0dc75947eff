import type { EncodeOptions } from '../../chat/hub/format.ts'
import type { ChatRequest } from '../../chat/hub/hub.ts'
import { type FittedNames, fittedNames, withFittedNames } from '../../chat/hub/tools/fitted-names.ts'
import { outboundOf } from '../../chat/index.ts'
import type { When } from '../../domain/price.ts'
import { warningsHeader } from '../../domain/warning.ts'
import type { RequestedTools } from '../../requests/provider-tools.ts'
import { searchAsked, type ToolTerms, withPaidTools } from './provider-tools.ts'
import type { RequestBody } from './request-reader.ts'
import { asking, omittedServices, wishesIn } from './services.ts'

/** Everything about a channel that decides what a translated request says. It is plain data, so that a thread can take it. */
export type TranslationTarget = {
  readonly format: string
  readonly sentModel: string
  readonly options: EncodeOptions
  /**
   * Whether the answer is translated as well, so that tool names can be turned back. `if-tools-differ`: only if the client
   * names or writes its tools otherwise than the channel takes them.
   */
  readonly answers: 'translated' | 'passed' | 'if-tools-differ'
  /** Whether the client's own bytes are sent where its answers pass. */
  readonly takesOwnBytes: boolean
  /** Whether the client asks for a service other than the usual one, or for tools that the provider runs. */
  readonly hasWishes: boolean
  readonly hasTools: boolean
  /** Absent: the request is looked at but not sent. */
  readonly granted?: When | undefined
  readonly toolTerms?: ToolTerms | undefined
  /** Members that the provider's file and the channel's override set. */
  readonly members: RequestBody
}

export type TranslatedRequest = {
  readonly body: Buffer
  readonly headers?: Readonly<Record<string, string>>
  readonly warnings?: readonly string[]
  readonly services?: When
  readonly tools?: RequestedTools
  readonly isAnswerTranslated: boolean
  readonly names: FittedNames | undefined
  /** The request as its answers repeat it. */
  readonly answered: ChatRequest
}

function isAnswerTranslated(request: ChatRequest, { answers, format }: TranslationTarget): boolean {
  if (answers !== 'if-tools-differ') return answers === 'translated'
  return request.isFirstForm === true || fittedNames(request, format) !== undefined
}

/** The request in the channel's format; undefined: its own bytes will do. */
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
  const wishes = wishesIn(body)
  const omitted = omittedServices(wishes, target.granted)
  const paid = target.hasTools ? withPaidTools(body, target.toolTerms) : undefined
  const sentWishes = wishes.filter(({ name }) => !(omitted && name in omitted.edits))
  const services = target.hasWishes
    ? (asking(sentWishes, paid && searchAsked(paid.tools)).asked ?? {})
    : undefined
  const losses = [
    ...(warnings.length > 0 ? [warningsHeader(warnings)] : []),
    ...(omitted ? [omitted.warnings] : []),
    ...(paid?.warnings ?? []),
  ]
  return {
    body: Buffer.from(JSON.stringify({ ...(paid?.body ?? body), ...omitted?.edits, ...target.members })),
    ...(headers && { headers }),
    ...(losses.length > 0 && { warnings: losses }),
    ...(services && { services }),
    ...(paid && { tools: paid.tools }),
    isAnswerTranslated: isTranslated,
    names,
    answered: answeredRequest(request, services),
  }
}

/** The request without its conversation, and without a service that the channel was not asked for. */
function answeredRequest(request: ChatRequest, services: When | undefined): ChatRequest {
  const { serviceTier, ...rest } = request
  const isServed = services?.service_tier !== undefined && serviceTier !== undefined
  return { ...rest, messages: [], ...(isServed && { serviceTier }) }
}
