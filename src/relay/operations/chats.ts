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
import { decodeBuffered, measured } from './chat-answer.ts'
import { ChatWork } from './chat-work.ts'
import { usageOptionsOf } from './openai.ts'
import { changedWork, type OperationSpec, type ReadContext, type Work } from './operation.ts'
import { editsFor, editsOfBytes, toolsIn, toolTermsOn, toolWarnings } from './provider-tools.ts'
import { encodedBody, mustRead, type ReadBody, type RequestBody } from './request-reader.ts'
import { omittedServices, type ServiceRequest, serviceRequestsIn, withWarnings } from './services.ts'
import { chatFormat, type NativeFormat } from './translate.ts'

type ClientFormat = {
  readonly format: Inbound
  readonly facts: (parsed: unknown, address?: RequestAddress) => RequestReading<ChatFacts>
  readonly errorFormat: ErrorFormat
  /** The spelling of its member names; absent: snake case. */
  readonly names?: NameRules
  /** For formats whose URL contains the model and the stream flag. */
  readonly address?: RequestAddress
  /** A member that is removed before the request is sent; `check` refuses some of its values. */
  readonly removedMember?: { readonly name: string; check(value: unknown): void }
}

/**
 * Chat operations of one format: providers of that format get the client's bytes, all others a translation through the
 * hub.
 */
function chatOperation({
  format,
  facts: readFacts,
  errorFormat,
  names = 'snake',
  address,
  removedMember: unsentMember,
}: ClientFormat) {
  const own = outboundOf(format.name)
  const formatOf = chatFormat(format.name)
  const read = (
    parsed: Record<string, unknown>,
    bytes: Buffer,
    readContext: ReadContext,
    members?: readonly Member[],
  ) => {
    const unsentValue = unsentMember && parsed[unsentMember.name]
    unsentMember?.check(unsentValue)
    const facts = mustRead(readFacts(parsed, address))
    const serviceRequests = serviceRequestsIn(parsed)
    const tools = toolsIn(parsed, format.turns)
    const source = {
      format,
      formatOf,
      bytes,
      members,
      parsed,
      address,
      choices: facts.n,
      hasAnswers: true,
      serviceRequests,
      tools,
    }
    const removedMembers = {
      ...(unsentMember && unsentValue !== undefined && { [unsentMember.name]: undefined }),
      // The URL names the model, and a mapped model has a different name there.
      ...(address?.model !== undefined && parsed.model !== undefined && { model: undefined }),
    }
    const native = own
      ? nativeFormat(own, facts, { ...source, idsAndClock: readContext.idsAndClock, removedMembers })
      : NO_NATIVE_FORMAT
    return new ChatWork({ facts, source, native, readContext })
  }
  return {
    operation: 'chat',
    format: 'openai-chat',
    formatFor: formatOf,
    errorFormat,
    names,
    skims: true,
    read,
  } as const satisfies OperationSpec
}

type NativeSource = ReadBody & {
  readonly address?: RequestAddress | undefined
  readonly idsAndClock: IdsAndClock
  /** Members that are removed from the body. */
  readonly removedMembers: Readonly<Record<string, undefined>>
  readonly parsed: RequestBody
  readonly serviceRequests: readonly ServiceRequest[]
  readonly tools: RequestedTools
}

/** For a channel with the client's format: its bytes are forwarded and only metered. */
const nativeFormat = (
  own: Outbound,
  facts: ChatFacts,
  {
    address,
    idsAndClock,
    removedMembers,
    parsed,
    serviceRequests,
    tools: requested,
    ...source
  }: NativeSource,
): NativeFormat => ({
  encode(channel, sentModel, limits) {
    const omitted = omittedServices(serviceRequests, limits?.granted(channel))
    const tools = editsFor(parsed, requested, toolTermsOn(channel, limits))
    const edits = { ...omitted?.edits, ...editsOfBytes(tools, source) }
    const special = { ...removedMembers, ...edits, ...channel.provider.bodies?.[own.name as FormatName] }
    // If the URL names the model, the body has no such field.
    const hasModelField = address?.model === undefined && !('model' in special)
    const body = encodedBody(source, hasModelField ? facts.model : sentModel, sentModel, channel, special)
    return withWarnings(body, omitted, toolWarnings(tools))
  },
  readers: channel => ({
    readBuffered: ({ body }) =>
      readingDocument(body, document => {
        const decoded = decodeBuffered(own, document, { idsAndClock, usage: usageOptionsOf(channel) })
        return 'fault' in decoded ? decoded : measured(decoded.answer)
      }),
    meter: () =>
      createPassingMeter(
        own.createStreamDecoder({ idsAndClock, choices: facts.n, usage: usageOptionsOf(channel) }),
      ),
  }),
})

const unsupported = (): never => {
  throw new Error('no provider speaks this format')
}
const NO_NATIVE_FORMAT: NativeFormat = { encode: unsupported, readers: unsupported }

/**
 * Anthropic stores a thread for one of its own accounts. The gateway may send the next request to another account and
 * computes the hold from the content of the request, so each request must contain the entire conversation. The gateway
 * removes the member if it starts a thread. It refuses to continue one, with the vendor's error code: clients then send
 * the entire conversation.
 */
const refuseThread = (thread: unknown) => {
  if (member(thread, 'type') !== 'continue') return
  throw new Refusal('thread_not_found', 'The gateway stores no threads. Send the whole conversation.')
}

const MESSAGES: ClientFormat = {
  format: anthropic,
  removedMember: { name: 'thread', check: refuseThread },
  // A limit of 0 only fills the vendor's prompt cache.
  facts: createFactsReader({ turns: anthropic.turns, leastLimit: 0 }),
  errorFormat: errorFormatOf(anthropic, {
    headers: requestId => ({ 'request-id': requestId }),
    keepAlive: 'event: ping\ndata: {"type":"ping"}\n\n',
    hasRequestId: true,
  }),
}

const NOT_STORED = 'is not supported: the gateway stores nothing'

const RESPONSES: ClientFormat = {
  format: responsesFormat,
  facts: createFactsReader({
    turns: responsesFormat.turns,
    isTextTaken: true,
    refused: {
      previous_response_id: `${NOT_STORED}, so send the whole conversation as input`,
      conversation: `${NOT_STORED}, so send the whole conversation as input`,
      prompt: `${NOT_STORED}, so send the text itself`,
      background: NOT_STORED,
    },
  }),
  errorFormat: errorFormatOf(responsesFormat, { keepAlive: ': keep-alive\n\n' }),
}

export const messages = chatOperation(MESSAGES)
export const responses = chatOperation(RESPONSES)

const generateContent = (address: RequestAddress, isEvents: boolean) => {
  const format = isEvents || !address.stream ? gemini : geminiList
  return chatOperation({
    format,
    facts: readContentFacts,
    errorFormat: errorFormatOf(format, format === geminiList ? { streamType: format.contentType } : {}),
    names: 'either',
    address,
  })
}

/** Counts the tokens of a request without a call to its vendor. */
const countOperation = (chat: ReturnType<typeof chatOperation>, bodyOf: (tokens: number) => object) =>
  ({
    ...chat,
    read(parsed, bytes, readContext, members): Work {
      const work = chat.read(parsed, bytes, readContext, members)
      return changedWork(work, {
        async answer(counter) {
          const { text, bytes: all, extra } = work.promptText()
          const counted = await counter.count(text)
          const share = Math.max(1, all / Math.max(1, Buffer.byteLength(text)))
          return bodyOf(extra + (counted === undefined ? tokensOf(all) : Math.ceil(counted * share)))
        },
      })
    },
  }) satisfies OperationSpec

export const countMessages = countOperation(messages, input_tokens => ({ input_tokens }))
export const countResponses = countOperation(responses, input_tokens => ({
  object: 'response.input_tokens',
  input_tokens,
}))

/** Error formats by the client's format, for requests that match no operation. */
export const ERROR_FORMATS = { anthropic: MESSAGES.errorFormat, gemini: errorFormatOf(gemini) } as const

/** Gemini's methods, which follow the model's name in the path. `isEvents`: the client reads server-sent events. */
export const GEMINI_METHODS: Readonly<Record<string, (model: string, isEvents: boolean) => OperationSpec>> = {
  generateContent: model => generateContent({ model, stream: false }, true),
  streamGenerateContent: (model, isEvents) => generateContent({ model, stream: true }, isEvents),
  countTokens: model => {
    const chat = generateContent({ model, stream: false }, true)
    const counted = countOperation(chat, totalTokens => ({ totalTokens }))
    // Clients may wrap the entire request for generateContent in a member.
    return {
      ...counted,
      read: (parsed, bytes, readContext) =>
        counted.read(
          (parsed.generateContentRequest ?? parsed.generate_content_request ?? parsed) as typeof parsed,
          bytes,
          readContext,
          undefined,
        ),
    }
  },
}
