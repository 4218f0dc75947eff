import { anthropic } from '../../chat/anthropic/messages/format.ts'
import { gemini, geminiList } from '../../chat/gemini/format.ts'
import type { IdsAndClock, Inbound, Outbound } from '../../chat/hub/format.ts'
import { createPassingMeter } from '../../chat/hub/meter.ts'
import { outboundOf } from '../../chat/index.ts'
import { responses as responsesFormat } from '../../chat/openai/responses/format.ts'
import { Refusal } from '../../domain/errors.ts'
import { member } from '../../domain/json-value.ts'
import type { FormatName } from '../../providers/index.ts'
import type { ChatFacts } from '../../requests/chat-request.ts'
import { createFactsReader, readContentFacts } from '../../requests/facts.ts'
import type { NameRules } from '../../requests/field-rules.ts'
import type { RequestedTools } from '../../requests/provider-tools.ts'
import type { RequestAddress, RequestReading } from '../../requests/request-fields.ts'
import type { Member } from '../../wire/json-edit.ts'
import { type ErrorFormat, errorFormatOf } from '../answer/error-format.ts'
import { tokensOf } from '../price/usage-count.ts'
import { readingDocument } from './carry.ts'
import { decodeWhole, measured } from './chat-answer.ts'
import { generation, usageOptionsOf } from './openai.ts'
import type { OperationSpec, ReadContext, Work } from './operation.ts'
import { editsFor, editsOfBytes, searchAsked, toolsIn, toolTermsOn, toolWarnings } from './provider-tools.ts'
import { encodedBody, mustRead, type ReadBody, type RequestBody } from './request-reader.ts'
import { asking, omittedServices, type Wish, wishesIn, withWarnings } from './services.ts'
import { chatFormat, type NativeFormat, translating } from './translate.ts'

type Dialect = {
  readonly format: Inbound
  readonly facts: (parsed: unknown, address?: RequestAddress) => RequestReading<ChatFacts>
  readonly voice: ErrorFormat
  /** How its members are named; absent: in snake case. */
  readonly names?: NameRules
  /** For formats whose URL holds the model and the stream flag. */
  readonly address?: RequestAddress
  /** A member that no provider is sent; `check` refuses some values of it. */
  readonly kept?: { readonly name: string; check(value: unknown): void }
}

/** Chats in this format: its own vendors get the client's bytes, all others a translation through the hub. */
function chatIn({ format, facts: readFacts, voice, names = 'snake', address, kept: unsentMember }: Dialect) {
  const own = outboundOf(format.name)
  const formatOf = chatFormat(format.name)
  const read = (
    parsed: Record<string, unknown>,
    bytes: Buffer,
    desk: ReadContext,
    members?: readonly Member[],
  ) => {
    const unsentValue = unsentMember && parsed[unsentMember.name]
    unsentMember?.check(unsentValue)
    const facts = mustRead(readFacts(parsed, address))
    const wishes = wishesIn(parsed)
    const tools = toolsIn(parsed)
    const source = {
      format,
      formatOf,
      bytes,
      members,
      parsed,
      address,
      choices: facts.n,
      hasAnswers: true,
      wishes,
      tools,
    }
    const removedMembers = {
      ...(unsentMember && unsentValue !== undefined && { [unsentMember.name]: undefined }),
      // The URL names the model, and a mapped model has another name there.
      ...(address?.model !== undefined && parsed.model !== undefined && { model: undefined }),
    }
    const native = own
      ? passing(own, facts, { ...source, ambience: desk.ambience, left: removedMembers })
      : UNSPOKEN
    return {
      ...generation(facts, parsed, bytes),
      tools,
      ...asking(wishes, searchAsked(tools)),
      ...translating(source, native, desk),
    }
  }
  return {
    operation: 'chat',
    format: 'openai-chat',
    formatFor: formatOf,
    voice,
    names,
    skims: true,
    read,
  } as const satisfies OperationSpec
}

type Passing = ReadBody & {
  readonly address?: RequestAddress | undefined
  readonly ambience: IdsAndClock
  /** Members that are removed from the body. */
  readonly left: Readonly<Record<string, undefined>>
  readonly parsed: RequestBody
  readonly wishes: readonly Wish[]
  readonly tools: RequestedTools
}

/** The channel speaks the client's format: bytes pass through, and are only metered. */
const passing = (
  own: Outbound,
  facts: ChatFacts,
  { address, ambience, left: removedMembers, parsed, wishes, tools: requested, ...source }: Passing,
): NativeFormat => ({
  encode(channel, sentModel, limits) {
    const unnamed = omittedServices(wishes, limits?.granted(channel))
    const tools = editsFor(parsed, requested, toolTermsOn(channel, limits))
    const edits = { ...unnamed?.edits, ...editsOfBytes(tools, source) }
    const special = { ...removedMembers, ...edits, ...channel.provider.bodies?.[own.name as FormatName] }
    // A model in the URL is no field of the body.
    const isTold = address?.model === undefined && !('model' in special)
    const body = encodedBody(source, isTold ? facts.model : sentModel, sentModel, channel, special)
    return withWarnings(body, unnamed, toolWarnings(tools))
  },
  readers: channel => ({
    readWhole: ({ body }) =>
      readingDocument(body, document => {
        const whole = decodeWhole(own, document, { ambience, usage: usageOptionsOf(channel) })
        return 'fault' in whole ? whole : measured(whole.answer)
      }),
    meter: () =>
      createPassingMeter(
        own.createStreamDecoder({ ambience, choices: facts.n, usage: usageOptionsOf(channel) }),
      ),
  }),
})

const unspoken = (): never => {
  throw new Error('no provider speaks this format')
}
const UNSPOKEN: NativeFormat = { encode: unspoken, readers: unspoken }

/**
 * A thread is a conversation that the vendor stores for one of its own accounts. The gateway may send the next request to
 * another account, and computes its bound from its content, so that every request must hold the whole conversation. Starting
 * a thread is harmless and the member is removed. Continuing one is refused with the vendor's error code, after which clients
 * send the whole conversation.
 */
const refuseThread = (thread: unknown) => {
  if (member(thread, 'type') !== 'continue') return
  throw new Refusal('thread_not_found', 'The gateway stores no threads. Send the whole conversation.')
}

const MESSAGES: Dialect = {
  format: anthropic,
  kept: { name: 'thread', check: refuseThread },
  // A limit of 0 only fills the vendor's prompt cache.
  facts: createFactsReader({ turns: 'messages', leastLimit: 0 }),
  voice: errorFormatOf(anthropic, {
    headers: requestId => ({ 'request-id': requestId }),
    keepAlive: 'event: ping\ndata: {"type":"ping"}\n\n',
    hasRequestId: true,
  }),
}

const NOT_STORED = 'is not supported: the gateway stores nothing'

const RESPONSES: Dialect = {
  format: responsesFormat,
  facts: createFactsReader({
    turns: 'input',
    isTextTaken: true,
    refused: {
      previous_response_id: `${NOT_STORED}, so send the whole conversation as input`,
      conversation: `${NOT_STORED}, so send the whole conversation as input`,
      prompt: `${NOT_STORED}, so send the text itself`,
      background: NOT_STORED,
    },
  }),
  voice: errorFormatOf(responsesFormat, { keepAlive: ': keep-alive\n\n' }),
}

export const messages = chatIn(MESSAGES)
export const responses = chatIn(RESPONSES)

const generateContent = (address: RequestAddress, isEvents: boolean) => {
  const format = isEvents || !address.stream ? gemini : geminiList
  return chatIn({
    format,
    facts: readContentFacts,
    voice: errorFormatOf(format, format === geminiList ? { streamType: format.contentType } : {}),
    names: 'either',
    address,
  })
}

/** Counts the tokens of a request without asking its vendor. */
const counting = (chat: ReturnType<typeof chatIn>, tell: (tokens: number) => object) =>
  ({
    ...chat,
    read(parsed, bytes, desk, members): Work {
      const work = chat.read(parsed, bytes, desk, members)
      return {
        ...work,
        async tell(counter) {
          const { text, bytes: all, extra } = work.promptText()
          const counted = await counter.count(text)
          const share = Math.max(1, all / Math.max(1, Buffer.byteLength(text)))
          return tell(extra + (counted === undefined ? tokensOf(all) : Math.ceil(counted * share)))
        },
      }
    },
  }) satisfies OperationSpec

export const countMessages = counting(messages, input_tokens => ({ input_tokens }))
export const countResponses = counting(responses, input_tokens => ({
  object: 'response.input_tokens',
  input_tokens,
}))

/** Error formats for requests outside of any operation, by the client's format. */
export const VOICES = { anthropic: MESSAGES.voice, gemini: errorFormatOf(gemini) } as const

/** Gemini's methods follow the model's name in the path. `isEvents`: the client reads server-sent events. */
export const GEMINI_METHODS: Readonly<Record<string, (model: string, isEvents: boolean) => OperationSpec>> = {
  generateContent: model => generateContent({ model, stream: false }, true),
  streamGenerateContent: (model, isEvents) => generateContent({ model, stream: true }, isEvents),
  countTokens: model => {
    const chat = generateContent({ model, stream: false }, true)
    const counted = counting(chat, totalTokens => ({ totalTokens }))
    // Clients may wrap the whole request that they would send to generateContent.
    return {
      ...counted,
      read: (parsed, bytes, desk) =>
        counted.read(
          (parsed.generateContentRequest ?? parsed.generate_content_request ?? parsed) as typeof parsed,
          bytes,
          desk,
          undefined,
        ),
    }
  },
}
