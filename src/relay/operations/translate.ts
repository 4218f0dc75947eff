import { eventsOf } from '../../chat/hub/answer.ts'
import type { DecodeOptions, Inbound, Outbound } from '../../chat/hub/format.ts'
import type { ChatAnswer, ChatRequest } from '../../chat/hub/hub.ts'
import { createEventMeter, createTranslatingMeter } from '../../chat/hub/meter.ts'
import { hasForeignProof } from '../../chat/hub/signature.ts'
import {
  type FittedNames,
  fittedNames,
  restoringNames,
  withOwnNames,
} from '../../chat/hub/tools/fitted-names.ts'
import { outboundOf } from '../../chat/index.ts'
import { FORMAT as OPENAI_CHAT } from '../../chat/openai/chat-completions/content.ts'
import { isInDialect } from '../../chat/openai/chat-completions/dialect.ts'
import type { When } from '../../domain/price.ts'
import { withToolCalls } from '../../domain/usage.ts'
import { type FormatName, formatsFor, type Provider } from '../../providers/index.ts'
import { boundsOf } from '../../requests/facts.ts'
import type { RequestedTools } from '../../requests/provider-tools.ts'
import type { RequestAddress } from '../../requests/request-fields.ts'
import { SKIM_BYTES } from '../../wire/json-skim.ts'
import type { RelayChannel } from '../catalog/catalog.ts'
import { answerFrom, readingDocument } from './carry.ts'
import type {
  AnswerReading,
  ChannelBody,
  ChannelRequest,
  ReadContext,
  Work,
  WorkLimits,
} from './operation.ts'
import { toolTermsOn } from './provider-tools.ts'
import { mustRead, type ReadBody, type RequestBody } from './request-reader.ts'
import type { Wish } from './services.ts'
import { type TranslationTarget, translateRequest } from './translate-request.ts'

/** A chat is asked in the client's own format wherever the model can be asked so, else in the first that we speak. */
export const chatFormat =
  (own: string) =>
  (provider: Provider, model: string): FormatName | undefined => {
    const isFixed = provider.speaks === undefined
    if (isFixed && Object.hasOwn(provider.chat ?? {}, own)) return own as FormatName
    const offered = formatsFor(provider, 'chat', model)
    return offered.find(format => format === own) ?? offered.find(format => outboundOf(format) !== undefined)
  }

/** How requests and answers of the client's own format are handled, for channels that speak it. */
export type NativeFormat = {
  encode(channel: RelayChannel, sentModel: string, limits?: WorkLimits): ChannelBody
  readers(channel: RelayChannel): AnswerReaders
}

type AnswerReaders = Pick<ChannelRequest, 'readWhole' | 'meter'>

/** The client's request, and its format. */
export type TranslationSource = ReadBody & {
  readonly format: Inbound
  /** `chatFormat` of it. */
  readonly formatOf: ReturnType<typeof chatFormat>
  readonly parsed: RequestBody
  readonly address?: RequestAddress | undefined
  readonly choices: number
  readonly wishes: readonly Wish[]
  readonly tools: RequestedTools
  /** It has earlier answers in it, which may carry the proofs of a vendor. */
  readonly hasAnswers: boolean
}

const usageOf = ({ provider }: RelayChannel): Pick<DecodeOptions, 'usage'> =>
  provider.usage === undefined ? {} : { usage: provider.usage }

/** The host's dialect of chat completions, where the client speaks them too. */
const dialectOn = ({ format }: TranslationSource, { provider }: RelayChannel) =>
  format.name === OPENAI_CHAT ? provider.encoding?.dialect : undefined

const REASONING_MEMBERS = ['"reasoning_content"', '"reasoning_details"', '"reasoning"']

/** Whether earlier answers in the request hold something that this channel would refuse. */
function hasRefusedContent(
  { format, bytes, hasAnswers }: TranslationSource,
  { provider }: RelayChannel,
): boolean {
  if (!hasAnswers) return false
  if (hasForeignProof(bytes)) return true
  const omits = provider.encoding?.omitReasoning === true && format.name === OPENAI_CHAT
  return omits && REASONING_MEMBERS.some(name => bytes.includes(name))
}

/** A channel that speaks none of our formats: it is passed over before anything is sent. */
const unreadable = (): never => {
  throw new Error('this channel cannot be asked')
}
const UNSENDABLE: ChannelRequest = { body: Buffer.alloc(0), readWhole: unreadable, meter: unreadable }

const targetOn = (
  source: TranslationSource,
  channel: RelayChannel,
  {
    format,
    sentModel,
    isAnswerTranslated,
    limits,
  }: Pick<TranslationTarget, 'format' | 'sentModel' | 'isAnswerTranslated'> & {
    readonly limits: WorkLimits | undefined
  },
): TranslationTarget => ({
  format,
  sentModel,
  isAnswerTranslated,
  options: { ...channel.provider.encoding, ...(limits && { maxOutputTokens: limits.maxOutput(channel) }) },
  hasWishes: source.wishes.length > 0,
  hasTools: source.tools.list.length > 0,
  granted: limits?.granted(channel),
  toolTerms: toolTermsOn(channel, limits),
  members: { ...channel.provider.bodies?.[format as FormatName], ...channel.override.members },
})

/** Channels that speak the client's format get its own bytes; for all others its request goes through the hub. */
export function translating(
  source: TranslationSource,
  native: NativeFormat,
  { ambience }: ReadContext,
): (...to: Parameters<Work['requestFor']>) => ChannelRequest {
  const { format: client, bytes, formatOf } = source
  let decoded: ChatRequest | undefined

  function request(): ChatRequest {
    // Of a long body the parsed form lacks the long texts.
    decoded ??= mustRead(
      client.decodeRequest(
        bytes.length > SKIM_BYTES ? JSON.parse(bytes.toString('utf8')) : source.parsed,
        source.address,
      ),
    )
    return decoded
  }

  /**
   * Whether the answer of a host with a dialect goes through the hub. A stream passes, with chunks that clients cannot read
   * rewritten one by one, unless its calls name tools otherwise than the client did, or in a form that it does not know.
   */
  function isAnswerRestored(isInHostDialect: boolean): boolean {
    const { stream, tools, functions } = source.parsed
    if (stream !== true) return !isInHostDialect
    if ((tools ?? functions ?? null) === null) return false
    return request().isFirstForm === true || fittedNames(request(), OPENAI_CHAT) !== undefined
  }

  return (channel, sentModel, limits) => {
    const name = formatOf(channel.provider, sentModel)
    const dialect = dialectOn(source, channel)
    const isInHostDialect = dialect === undefined || isInDialect(source.parsed, dialect)
    const isAnswerTranslated =
      name !== client.name || (dialect !== undefined && isAnswerRestored(isInHostDialect))
    if (!isAnswerTranslated && isInHostDialect && !hasRefusedContent(source, channel))
      return { ...native.encode(channel, sentModel, limits), ...native.readers(channel) }
    const upstream = outboundOf(name ?? '')
    if (upstream === undefined) return UNSENDABLE
    const target = targetOn(source, channel, { format: upstream.name, sentModel, isAnswerTranslated, limits })
    const { names, body, ...translated } = translateRequest(request(), target)
    const readers = isAnswerTranslated
      ? translatingReaders({
          client,
          upstream,
          names,
          request: answeredRequest(request(), translated.services),
          decoding: { ambience, ...usageOf(channel) },
          choices: source.choices,
        })
      : native.readers(channel)
    return { ...translated, body: Buffer.from(JSON.stringify(body)), boundsOf, ...readers }
  }
}

/** The request as answers repeat it: without its conversation, and without a service that was not asked for. */
function answeredRequest(request: ChatRequest, services: When | undefined): ChatRequest {
  const { serviceTier, ...rest } = request
  const isServed = services?.service_tier !== undefined && serviceTier !== undefined
  return { ...rest, messages: [], ...(isServed && { serviceTier }) }
}

type AnswerTranslation = {
  readonly client: Inbound
  readonly upstream: Outbound
  readonly names: FittedNames | undefined
  readonly request: ChatRequest
  readonly decoding: DecodeOptions
  readonly choices: number
}

/** Answers of the channel's format, written in the client's. */
function translatingReaders({
  client,
  upstream,
  names,
  request,
  decoding,
  choices,
}: AnswerTranslation): AnswerReaders {
  const { ambience } = decoding
  return {
    readWhole: ({ body }) =>
      readingDocument(body, document => {
        const whole = decodeWhole(upstream, document, decoding)
        if ('fault' in whole) return whole
        const named = withOwnNames(whole.answer, names)
        const written = (answer: ChatAnswer) =>
          answerFrom(body, () => client.encodeAnswer(answer, { ambience, request }))
        // Where the provider reports no usage, the client gets the counted one.
        const isReported = named.usage !== undefined
        return {
          ...measured(whole.answer),
          answer: isReported ? written(named) : usage => writtenNow(written({ ...named, usage })),
        }
      }),
    meter: () =>
      createTranslatingMeter({
        decoder: upstream.createStreamDecoder({ ...decoding, choices }),
        encoder: restoringNames(client.createStreamEncoder({ ambience, request }), names),
      }),
  }
}

const writtenNow = (answer: ReturnType<typeof answerFrom>) =>
  typeof answer === 'function' ? answer() : answer

/** An answer as its format decodes it, or why it is none. */
export function decodeWhole(
  format: Outbound,
  document: unknown,
  options: DecodeOptions,
): { readonly answer: ChatAnswer } | (AnswerReading & { readonly fault: string }) {
  const answer = format.decodeAnswer(document, options)
  return 'error' in answer ? { usage: undefined, outputBytes: 0, fault: answer.error.message } : { answer }
}

/** What an answer has used; where it does not say so, how much of it there is to count. */
export function measured(answer: ChatAnswer): AnswerReading {
  const { usage, toolCalls } = answer
  if (usage !== undefined) return { usage: withToolCalls(usage, toolCalls), outputBytes: 0 }
  const meter = createEventMeter()
  for (const event of eventsOf(answer)) meter.read(event)
  const { textBytes, reasoningBytes } = meter.reading
  const outputBytes = textBytes + reasoningBytes
  return { usage: undefined, outputBytes, sample: meter.sample, ...(toolCalls && { toolCalls }) }
}
