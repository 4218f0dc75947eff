import type { ChatDialect } from '../../chat/hub/dialect.ts'
import type { DecodeOptions, Inbound, Outbound } from '../../chat/hub/format.ts'
import type { ChatRequest } from '../../chat/hub/hub.ts'
import { createTranslatingMeter } from '../../chat/hub/meter.ts'
import { hasForeignSignature } from '../../chat/hub/signature.ts'
import { restoringNames } from '../../chat/hub/tools/fitted-names.ts'
import { outboundOf } from '../../chat/index.ts'
import { FORMAT as OPENAI_CHAT } from '../../chat/openai/chat-completions/content.ts'
import { isInDialect } from '../../chat/openai/chat-completions/dialect.ts'
import { type FormatName, formatsFor, type Provider } from '../../providers/index.ts'
import { boundsOf } from '../../requests/facts.ts'
import type { RequestedTools } from '../../requests/provider-tools.ts'
import type { RequestAddress } from '../../requests/request-fields.ts'
import { SKIM_BYTES } from '../../wire/json-skim.ts'
import { findInSlices } from '../../wire/search-slices.ts'
import type { RelayChannel } from '../catalog/catalog.ts'
import type { ChannelRequest, UpstreamBody, WorkLimits } from './channel-request.ts'
import { translateAnswer } from './chat-answer.ts'
import type { ReadContext, Work } from './operation.ts'
import { toolTermsOn } from './provider-tools.ts'
import { mustRead, type ReadBody, type RequestBody } from './request-reader.ts'
import type { ServiceRequest } from './services.ts'
import { type TranslatedRequest, type TranslationTarget, translateRequest } from './translate-request.ts'
import type { ThreadTranslation } from './translator.ts'

/**
 * Chooses the format for a chat: the client's own if the model supports it, else the first one that the gateway can
 * encode.
 */
export const chatFormat =
  (own: string) =>
  (provider: Provider, model: string): FormatName | undefined => {
    const isFixed = provider.formatsOfModel === undefined
    if (isFixed && Object.hasOwn(provider.chat ?? {}, own)) return own as FormatName
    const offered = formatsFor(provider, 'chat', model)
    return offered.find(format => format === own) ?? offered.find(format => outboundOf(format) !== undefined)
  }

/** Encodes requests and reads answers for channels with the client's own format. */
export type NativeFormat = {
  encode(channel: RelayChannel, sentModel: string, limits?: WorkLimits): UpstreamBody
  readers(channel: RelayChannel): AnswerReaders
}

type AnswerReaders = Pick<ChannelRequest, 'readBuffered' | 'meter'>

/** The client's request and its format. */
export type TranslationSource = ReadBody & {
  readonly format: Inbound
  /** The `chatFormat` function for this format. */
  readonly formatOf: ReturnType<typeof chatFormat>
  readonly parsed: RequestBody
  readonly address?: RequestAddress | undefined
  readonly choices: number
  readonly serviceRequests: readonly ServiceRequest[]
  readonly tools: RequestedTools
  /** Whether the request contains earlier answers, which may carry a vendor's signatures. */
  readonly hasAnswers: boolean
}

const usageOf = ({ provider }: RelayChannel): Pick<DecodeOptions, 'usage'> =>
  provider.usage === undefined ? {} : { usage: provider.usage }

/** The provider's dialect of chat completions, if the client uses chat completions too. */
const dialectOn = ({ format }: TranslationSource, { provider }: RelayChannel) =>
  format.name === OPENAI_CHAT ? provider.encoding?.dialect : undefined

const REASONING_MEMBERS = ['"reasoning_content"', '"reasoning_details"', '"reasoning"']

/** Longer than each of these members, and than the prefix of another vendor's signature. */
const PATTERN_BYTES = 64

/** Whether earlier answers in the request contain something that this channel rejects. */
function hasRefusedContent(
  { format, bytes, hasAnswers }: TranslationSource,
  { provider }: RelayChannel,
): boolean | Promise<boolean> {
  if (!hasAnswers) return false
  const omits = provider.encoding?.omitReasoning === true && format.name === OPENAI_CHAT
  const isRefused = (slice: Buffer) =>
    hasForeignSignature(slice) || (omits && REASONING_MEMBERS.some(name => slice.includes(name)))
  return findInSlices(bytes, isRefused, PATTERN_BYTES)
}

/** For a channel whose format the gateway cannot encode. The plan skips it, so its request is never sent. */
const neverSent = (): never => {
  throw new Error('the gateway cannot encode requests in the format of this channel')
}
const UNSENDABLE: ChannelRequest = { body: Buffer.alloc(0), readBuffered: neverSent, meter: neverSent }

/**
 * Whether the channel's answers are translated. Answers in another format are. A provider with a dialect of the client's
 * format answers in that dialect: a buffered answer is passed if the request is valid in the dialect too; a stream is
 * passed, chunk by chunk, unless the tools of the request had to be renamed or rewritten for the provider.
 */
function answersOn(
  { format, parsed }: TranslationSource,
  name: string | undefined,
  dialect: ChatDialect | undefined,
): TranslationTarget['answers'] {
  if (name !== format.name) return 'translated'
  if (dialect === undefined) return 'passed'
  if (parsed.stream !== true) return isInDialect(parsed, dialect) ? 'passed' : 'translated'
  return (parsed.tools ?? parsed.functions ?? null) === null ? 'passed' : 'if-tools-differ'
}

/** The request for a channel with the client's own format. */
export const nativeRequest = (
  native: NativeFormat,
  ...target: Parameters<Work['requestFor']>
): ChannelRequest => ({ ...native.encode(...target), ...native.readers(target[0]) })

/** Whether a channel takes the client's own bytes whatever they are: it has the format, and the request no earlier answers. */
export const passesUnread = (source: TranslationSource, channel: RelayChannel, sentModel: string): boolean =>
  !source.hasAnswers &&
  dialectOn(source, channel) === undefined &&
  source.formatOf(channel.provider, sentModel) === source.format.name

export type Translation = Pick<Work, 'requestFor'> & Required<Pick<Work, 'dispose'>>

/**
 * Requests and answers above this size are translated on a worker thread. Below it, the message to the thread may cost
 * more than it saves.
 */
const THREAD_BYTES = 256 * 1024

/** Channels with the client's format get its own bytes. For all others the request is translated through the hub. */
export function createTranslation(
  source: TranslationSource,
  native: NativeFormat,
  { idsAndClock, translator }: ReadContext,
): Translation {
  const { format: client, bytes, formatOf, address } = source
  let decoded: ChatRequest | undefined
  let thread: ThreadTranslation | undefined

  function decodedRequest(): ChatRequest {
    // A large body is parsed without its long texts, so it is parsed again in full here.
    const fullBody = () => (bytes.length > SKIM_BYTES ? JSON.parse(bytes.toString('utf8')) : source.parsed)
    decoded ??= mustRead(client.decodeRequest(fullBody(), address))
    return decoded
  }

  /** The worker thread for a document of this size; undefined: translate it on this thread. */
  function onThread({ length }: Buffer): ThreadTranslation | undefined {
    if (translator === undefined || length <= THREAD_BYTES) return undefined
    thread ??= translator.open({ format: client.name, address, bytes })
    return thread
  }

  const translate = (target: TranslationTarget) =>
    onThread(bytes)?.translateRequest(target) ?? translateRequest(decodedRequest(), target)

  function foreignRequest(
    translated: TranslatedRequest,
    upstream: Outbound,
    channel: RelayChannel,
  ): ChannelRequest {
    const { names, requestEcho, isAnswerTranslated, ...body } = translated
    const boundsOfBody = (parsed: RequestBody) => boundsOf(parsed, upstream.turns)
    if (!isAnswerTranslated) return { ...body, boundsOf: boundsOfBody, ...native.readers(channel) }
    const translation = {
      upstreamFormat: upstream.name,
      clientFormat: client.name,
      ...usageOf(channel),
      names,
      requestEcho,
    }
    return {
      ...body,
      boundsOf: boundsOfBody,
      readBuffered: answer =>
        onThread(answer.body)?.translateAnswer(answer.body, translation) ??
        translateAnswer(answer.body, translation, idsAndClock),
      meter: () =>
        createTranslatingMeter({
          decoder: upstream.createStreamDecoder({
            idsAndClock,
            choices: source.choices,
            ...usageOf(channel),
          }),
          encoder: restoringNames(client.createStreamEncoder({ idsAndClock, request: requestEcho }), names),
        }),
    }
  }

  return {
    requestFor(channel, sentModel, limits) {
      const name = formatOf(channel.provider, sentModel)
      const dialect = dialectOn(source, channel)
      const isInHostDialect = dialect === undefined || isInDialect(source.parsed, dialect)
      const answers = answersOn(source, name, dialect)
      const request = (mustTranslate: boolean): ChannelRequest | Promise<ChannelRequest> => {
        const takesOwnBytes = isInHostDialect && !mustTranslate
        if (answers === 'passed' && takesOwnBytes) return nativeRequest(native, channel, sentModel, limits)
        const upstream = outboundOf(name ?? '')
        if (upstream === undefined) return UNSENDABLE
        const translated = translate({
          format: upstream.name,
          sentModel,
          answers,
          takesOwnBytes,
          options: {
            ...channel.provider.encoding,
            ...(limits && { maxOutputTokens: limits.maxOutput(channel) }),
          },
          hasServiceRequests: source.serviceRequests.length > 0,
          hasTools: source.tools.list.length > 0,
          granted: limits?.granted(channel),
          toolTerms: toolTermsOn(channel, limits),
          members: { ...channel.provider.bodies?.[upstream.name as FormatName], ...channel.override.members },
        })
        const finish = (done: TranslatedRequest | undefined) =>
          done ? foreignRequest(done, upstream, channel) : nativeRequest(native, channel, sentModel, limits)
        return translated instanceof Promise ? translated.then(finish) : finish(translated)
      }
      // Answers are only translated if the request is too.
      const mustTranslate = answers === 'translated' || hasRefusedContent(source, channel)
      return mustTranslate instanceof Promise ? mustTranslate.then(request) : request(mustTranslate)
    },
    dispose: () => thread?.end(),
  }
}
