import { eventsOf } from '../../chat/hub/answer.ts'
import type { DecodeOptions, Inbound, Outbound } from '../../chat/hub/format.ts'
import type { ChatAnswer, ChatRequest } from '../../chat/hub/hub.ts'
import { createEventMeter, createTranslatingMeter } from '../../chat/hub/meter.ts'
import { hasForeignProof } from '../../chat/hub/signature.ts'
import {
  fittedNames,
  restoringNames,
  withFittedNames,
  withOwnNames,
} from '../../chat/hub/tools/fitted-names.ts'
import { outboundOf } from '../../chat/index.ts'
import { FORMAT as OPENAI_CHAT } from '../../chat/openai/chat-completions/content.ts'
import { isInDialect } from '../../chat/openai/chat-completions/dialect.ts'
import type { When } from '../../domain/price.ts'
import { withToolCalls } from '../../domain/usage.ts'
import { warningsHeader } from '../../domain/warning.ts'
import { type FormatName, formatsFor, type Provider } from '../../providers/index.ts'
import { boundsOf } from '../../requests/facts.ts'
import type { RequestedTools } from '../../requests/provider-tools.ts'
import type { RequestAddress } from '../../requests/request-fields.ts'
import { SKIM_BYTES } from '../../wire/json-skim.ts'
import type { RelayChannel } from '../catalog/catalog.ts'
import { answerFrom, readingDocument } from './carry.ts'
import type { AnswerReading, EncodedWork, ReadContext, Work, WorkLimits } from './operation.ts'
import { searchAsked, withPaidTools } from './provider-tools.ts'
import { mustRead, type ReadBody, type RequestBody } from './request-reader.ts'
import { asking, omittedServices, type Wish, wishesIn } from './services.ts'

/** A chat is asked in the client's own format wherever the model can be asked so, else in the first that we speak. */
export const chatFormat =
  (own: string) =>
  (provider: Provider, model: string): FormatName | undefined => {
    const isFixed = provider.speaks === undefined
    if (isFixed && Object.hasOwn(provider.chat ?? {}, own)) return own as FormatName
    const offered = formatsFor(provider, 'chat', model)
    return offered.find(format => format === own) ?? offered.find(format => outboundOf(format) !== undefined)
  }

const NOTHING = Buffer.alloc(0)

/** What a request of one format needs for channels that speak it. */
export type Native = Pick<Work, 'dress' | 'readWhole' | 'meter'>

/** The client's format and its request. */
export type TranslatedAnswer = ReadBody & {
  readonly format: Inbound
  /** `chatFormat` of it. */
  readonly formatOf: ReturnType<typeof chatFormat>
  readonly parsed: RequestBody
  readonly address?: RequestAddress | undefined
  readonly choices: number
  readonly wishes: readonly Wish[]
  readonly tools: RequestedTools
  /** There are answers in it, which may have brought the proofs of a vendor. */
  readonly goesOn: boolean
}

const usageOf = ({ provider }: RelayChannel): Pick<DecodeOptions, 'usage'> =>
  provider.usage === undefined ? {} : { usage: provider.usage }

/** How the host words chat completions, where the client speaks them too. */
const dialectOn = ({ format }: TranslatedAnswer, { provider }: RelayChannel) =>
  format.name === OPENAI_CHAT ? provider.encoding?.dialect : undefined

const THOUGHTS = ['"reasoning_content"', '"reasoning_details"', '"reasoning"']

/** Whether answers in the request brought something along that this channel would refuse. */
function bringsRefused({ format, bytes, goesOn }: TranslatedAnswer, { provider }: RelayChannel): boolean {
  if (!goesOn) return false
  if (hasForeignProof(bytes)) return true
  const omits = provider.encoding?.omitReasoning === true && format.name === OPENAI_CHAT
  return omits && THOUGHTS.some(name => bytes.includes(name))
}

/** Channels that speak the client's format get its own bytes; for all others its request goes through the hub. */
export function translating(
  told: TranslatedAnswer,
  native: Native,
  { ambience }: ReadContext,
): Native & Required<Pick<Work, 'askedOn' | 'toolsOn'>> {
  const { format: client, bytes, formatOf } = told
  // Which channels were asked in another format: their answers come in it.
  let foreign: Map<number, Outbound> | undefined
  let decoded: ChatRequest | undefined
  // How they were asked to serve it, where the client cares.
  let services: Map<number, When> | undefined
  // Which tools of the provider they were asked for, where the client asks for any.
  let toolsSent: Map<number, RequestedTools> | undefined

  function request(): ChatRequest {
    // Of a long body the parsed form lacks the long texts.
    const parsed = bytes.length > SKIM_BYTES ? JSON.parse(bytes.toString('utf8')) : told.parsed
    decoded ??= mustRead(client.decodeRequest(parsed, told.address))
    return decoded
  }

  /** The request that an answer tells of: a service that was not asked for is none of its wishes. */
  function answered({ id }: RelayChannel): ChatRequest {
    const { serviceTier: _, ...usual } = request()
    return services?.get(id)?.service_tier === undefined ? usual : request()
  }

  /**
   * Whether the answer of a host with a dialect goes through the hub. A stream passes, with chunks that clients cannot read
   * rewritten one by one, unless its calls name tools otherwise than the client did, or in a form that it does not know.
   */
  function isAnswerRestored(isWorded: boolean): boolean {
    const { stream, tools, functions } = told.parsed
    if (stream !== true) return !isWorded
    if ((tools ?? functions ?? null) === null) return false
    return request().isFirstForm === true || fittedNames(request(), OPENAI_CHAT) !== undefined
  }

  /** Only where answers are translated as well can names be turned back. */
  const namesFor = (upstream: Outbound, channel: RelayChannel) =>
    foreign?.has(channel.id) ? fittedNames(request(), upstream.name) : undefined

  function encode(upstream: Outbound, channel: RelayChannel, sent: string, limits?: WorkLimits): EncodedWork {
    const named = withFittedNames(request(), namesFor(upstream, channel))
    const { body, warnings, headers } = upstream.encodeRequest(
      { ...named, model: sent },
      { ...channel.provider.encoding, ...(limits && { maxOutputTokens: limits.maxOutput(channel) }) },
    )
    const fixed = channel.provider.bodies?.[upstream.name as FormatName]
    const wishes = wishesIn(body)
    const left = omittedServices(wishes, channel, limits)
    const paid = told.tools.list.length > 0 ? withPaidTools(body, channel, limits) : undefined
    if (paid) {
      toolsSent ??= new Map()
      toolsSent.set(channel.id, paid.tools)
    }
    if (told.wishes.length > 0) {
      services ??= new Map()
      const granted = wishes.filter(({ name }) => !(left && name in left.edits))
      services.set(channel.id, asking(granted, paid && searchAsked(paid.tools)).asked ?? {})
    }
    const lost = [
      ...(warnings.length > 0 ? [warningsHeader(warnings)] : []),
      ...(left ? [left.warnings] : []),
      ...(paid?.warnings ?? []),
    ]
    const members = { ...(paid?.body ?? body), ...left?.edits, ...fixed, ...channel.override.members }
    return {
      body: Buffer.from(JSON.stringify(members)),
      ...(headers && { headers }),
      ...(lost.length > 0 && { warnings: lost }),
      boundsOf,
    }
  }

  return {
    dress(channel, sent, limits) {
      const name = formatOf(channel.provider, sent)
      const dialect = dialectOn(told, channel)
      const isWorded = dialect === undefined || isInDialect(told.parsed, dialect)
      const isForeign = name !== client.name || (dialect !== undefined && isAnswerRestored(isWorded))
      // A channel may be asked a second time, in another format.
      foreign?.delete(channel.id)
      services?.delete(channel.id)
      toolsSent?.delete(channel.id)
      if (!isForeign && isWorded && !bringsRefused(told, channel)) return native.dress(channel, sent, limits)
      const upstream = outboundOf(name ?? '')
      // Such a channel is passed over before anything goes there.
      if (upstream === undefined) return NOTHING
      if (isForeign) {
        foreign ??= new Map()
        foreign.set(channel.id, upstream)
      }
      return encode(upstream, channel, sent, limits)
    },
    askedOn: channel => services?.get(channel.id),
    toolsOn: channel => toolsSent?.get(channel.id),
    readWhole(body, channel, more) {
      const upstream = foreign?.get(channel.id)
      if (upstream === undefined) return native.readWhole(body, channel, more)
      return readingDocument(body, document => {
        const answer = decodeWhole(upstream, document, { ambience, ...usageOf(channel) })
        if ('fault' in answer) return answer
        const named = withOwnNames(answer.answer, namesFor(upstream, channel))
        const written = (told: ChatAnswer) =>
          answerFrom(body, () => client.encodeAnswer(told, { ambience, request: answered(channel) }))
        // Where the provider tells no usage, the client is told what was counted.
        const isTold = named.usage !== undefined
        return {
          ...measured(answer.answer),
          answer: isTold ? written(named) : usage => writtenNow(written({ ...named, usage })),
        }
      })
    },
    meter(channel, length) {
      const upstream = foreign?.get(channel.id)
      if (upstream === undefined) return native.meter(channel, length)
      return createTranslatingMeter({
        decoder: upstream.createStreamDecoder({ ambience, choices: told.choices, ...usageOf(channel) }),
        encoder: restoringNames(
          client.createStreamEncoder({ ambience, request: answered(channel) }),
          namesFor(upstream, channel),
        ),
      })
    },
  }
}

const writtenNow = (answer: ReturnType<typeof answerFrom>) =>
  typeof answer === 'function' ? answer() : answer

/** An answer as its format tells it, or why it is none. */
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
