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

/** Everything about a channel that decides what a translated request says. It is plain data, so that a thread can have it. */
export type TranslationTarget = {
  readonly format: string
  readonly sentModel: string
  readonly options: EncodeOptions
  /** The answer is translated as well, so that tool names can be turned back. */
  readonly isAnswerTranslated: boolean
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
  readonly body: RequestBody
  readonly headers?: Readonly<Record<string, string>>
  readonly warnings?: readonly string[]
  readonly services?: When
  readonly tools?: RequestedTools
  readonly names: FittedNames | undefined
}

/** The request in the channel's format. */
export function translateRequest(request: ChatRequest, target: TranslationTarget): TranslatedRequest {
  const upstream = outboundOf(target.format)
  if (upstream === undefined) throw new Error(`no such format: ${target.format}`)
  const names = target.isAnswerTranslated ? fittedNames(request, target.format) : undefined
  const named = withFittedNames(request, names)
  const { body, warnings, headers } = upstream.encodeRequest(
    { ...named, model: target.sentModel },
    target.options,
  )
  const wishes = wishesIn(body)
  const omitted = omittedServices(wishes, target.granted)
  const paid = target.hasTools ? withPaidTools(body, target.toolTerms) : undefined
  const sentWishes = wishes.filter(({ name }) => !(omitted && name in omitted.edits))
  const losses = [
    ...(warnings.length > 0 ? [warningsHeader(warnings)] : []),
    ...(omitted ? [omitted.warnings] : []),
    ...(paid?.warnings ?? []),
  ]
  return {
    body: { ...(paid?.body ?? body), ...omitted?.edits, ...target.members },
    ...(headers && { headers }),
    ...(losses.length > 0 && { warnings: losses }),
    ...(target.hasWishes && { services: asking(sentWishes, paid && searchAsked(paid.tools)).asked ?? {} }),
    ...(paid && { tools: paid.tools }),
    names,
  }
}
