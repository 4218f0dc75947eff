import { inputBound, type PromptSize } from '../../metering/prompt-size.ts'
import { type PromptText, promptText } from '../../metering/prompt-text.ts'
import type { ChatFacts } from '../../requests/chat-request.ts'
import type { RequestedTools } from '../../requests/provider-tools.ts'
import type { RelayChannel } from '../catalog/catalog.ts'
import type { ChannelRequest, WorkLimits } from './channel-request.ts'
import type { ReadContext, Work } from './operation.ts'
import { searchKindOf } from './provider-tools.ts'
import type { RequestBody } from './request-reader.ts'
import { priceConditionsOf } from './services.ts'
import {
  createTranslation,
  type NativeFormat,
  nativeRequest,
  passesUnread,
  type Translation,
  type TranslationSource,
} from './translate.ts'

/** A token has about four bytes of text. */
const BYTES_PER_TOKEN = 4

/** A likely number of tokens for images and audio. A hold takes the maximum instead. */
const mediaTokens = ({ media }: PromptSize) => inputBound({ textBytes: 0, media }) / 16

export const countedInput = (size: PromptSize) =>
  Math.ceil(size.textBytes / BYTES_PER_TOKEN) + mediaTokens(size)

type TextFacts = PromptSize & { readonly overhead?: number }

/** The text of a request, for counting its tokens. Only chats have an overhead: vendors add tokens around messages. */
export const promptTextOf = (facts: TextFacts, parsed: RequestBody): PromptText =>
  promptText(parsed, mediaTokens(facts), facts.overhead !== undefined)

/** Images and audio have fixed bounds: there is no text to count. */
export const boundTextOf = (facts: TextFacts, bytes: Buffer) =>
  mediaTokens(facts) > 0 ? undefined : { text: bytes.toString('utf8'), extra: facts.overhead ?? 0 }

/** What a chat is read from: its source, and how channels of the client's own format take it. */
type ChatWorkInput = {
  readonly facts: ChatFacts
  readonly source: TranslationSource
  readonly native: NativeFormat
  readonly readContext: ReadContext
  readonly hasStreamOptions?: boolean
}

/** A chat in any format. An object of a class: the same as closures took 3 KB for each request. */
export class ChatWork implements Work {
  readonly model: string
  readonly isStream: boolean
  readonly hasStreamOptions?: boolean
  readonly inputTokens: number
  readonly countedInput: number
  readonly tools: RequestedTools
  readonly priceConditions?: NonNullable<Work['priceConditions']>
  private readonly input: ChatWorkInput
  private translation: Translation | undefined = undefined

  constructor(input: ChatWorkInput) {
    const { facts, source, hasStreamOptions } = input
    const { furtherInferences = 0 } = facts
    this.input = input
    this.model = facts.model
    this.isStream = facts.stream
    if (hasStreamOptions !== undefined) this.hasStreamOptions = hasStreamOptions
    this.inputTokens = inputBound(facts) * (1 + furtherInferences)
    this.countedInput = Math.ceil(
      countedInput({ media: facts.media, textBytes: facts.textBytes - facts.overhead }),
    )
    this.tools = source.tools
    const priceConditions = priceConditionsOf(source.serviceRequests, searchKindOf(source.tools))
    if (priceConditions !== undefined) this.priceConditions = priceConditions
  }

  promptText(): PromptText {
    return promptTextOf(this.input.facts, this.input.source.parsed)
  }

  boundText() {
    const { facts, source } = this.input
    return (facts.furtherInferences ?? 0) > 0 ? undefined : boundTextOf(facts, source.bytes)
  }

  /** The client's limit applies to the answer. Further inferences of the vendor are limited by the model only. */
  outputTokens(maximum: number | undefined): number {
    const { maxOutput, n, choicesMade = n, outputBeside = 0, furtherInferences = 0 } = this.input.facts
    return (
      ((limitIn(maxOutput) ?? maximum ?? 0) + outputBeside) * choicesMade +
      (maximum ?? maxOutput ?? 0) * furtherInferences
    )
  }

  outputLimit(maximum: number | undefined): number | undefined {
    const { maxOutput, n, choicesMade = n, outputBeside } = this.input.facts
    return limitOf(limitIn(maxOutput) ?? maximum, choicesMade, outputBeside)
  }

  requestFor(
    channel: RelayChannel,
    sentModel: string,
    limits?: WorkLimits,
  ): ChannelRequest | Promise<ChannelRequest> {
    const { source, native, readContext } = this.input
    if (passesUnread(source, channel, sentModel)) return nativeRequest(native, channel, sentModel, limits)
    this.translation ??= createTranslation(source, native, readContext)
    return this.translation.requestFor(channel, sentModel, limits)
  }

  dispose(): void {
    this.translation?.dispose()
  }
}

/** Hosts whose JSON library omits zeros, such as New API, read a limit of 0 as none. */
export const limitIn = (requestedLimit: number | undefined) => requestedLimit || undefined

export const limitOf = (limit: number | undefined, choices: number, beside = 0) =>
  limit === undefined ? undefined : (limit + beside) * choices
