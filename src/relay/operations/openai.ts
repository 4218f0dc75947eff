import { createChunkFitter } from '../../chat/openai/chat-completions/chunk-fitter.ts'
import { openaiChat } from '../../chat/openai/chat-completions/format.ts'
import { inputBound, type PromptSize } from '../../metering/prompt-size.ts'
import { promptText } from '../../metering/prompt-text.ts'
import { type AnswerMeter, createStreamMeter } from '../../metering/stream-meter.ts'
import { createTextSample, type TextSample } from '../../metering/text-sample.ts'
import {
  type WholeReading as MeteredWhole,
  meterLarge,
  meterWhole,
  type WholeMeterOptions,
} from '../../metering/whole-meter.ts'
import { type ChatFacts, readChatRequest } from '../../requests/chat-request.ts'
import { readCompletionRequest } from '../../requests/completion-request.ts'
import type { RequestedTools } from '../../requests/provider-tools.ts'
import { SLICED_BYTES } from '../../wire/json-slices.ts'
import type { RelayChannel } from '../catalog/catalog.ts'
import type { AnswerReading, WorkLimits } from './channel-request.ts'
import type { OperationSpec, Work } from './operation.ts'
import { editsFor, editsOfBytes, searchKindOf, toolsIn, toolTermsOn, toolWarnings } from './provider-tools.ts'
import { encodedBody, mustRead, type ReadBody, type RequestBody } from './request-reader.ts'
import {
  omittedServices,
  priceConditionsOf,
  type ServiceRequest,
  serviceRequestsIn,
  withWarnings,
} from './services.ts'
import { chatFormat, createTranslation, type NativeFormat } from './translate.ts'

/** A token has about four bytes of text. */
const BYTES_PER_TOKEN = 4

/** A likely number of tokens for images and audio. A hold takes the maximum instead. */
const mediaTokens = ({ media }: PromptSize) => inputBound({ textBytes: 0, media }) / 16

export const countedInput = (size: PromptSize) =>
  Math.ceil(size.textBytes / BYTES_PER_TOKEN) + mediaTokens(size)

/** The texts of a request, for counting tokens. */
export const texts = (
  facts: PromptSize & { readonly overhead?: number },
  parsed: RequestBody,
  bytes: Buffer,
) => ({
  // Only chats have an overhead: vendors add tokens around messages.
  promptText: () => promptText(parsed, mediaTokens(facts), facts.overhead !== undefined),
  // Images and audio have fixed bounds: there is no text to count.
  boundText: () =>
    mediaTokens(facts) > 0 ? undefined : { text: bytes.toString('utf8'), extra: facts.overhead ?? 0 },
})

export function readBuffered(
  body: Buffer,
  options: WholeMeterOptions,
): AnswerReading | Promise<AnswerReading> {
  const sample = createTextSample()
  const metering = { ...options, sample }
  if (body.length <= SLICED_BYTES) return readingOf(meterWhole(body, metering), sample)
  return meterLarge(body, metering).then(reading => readingOf(reading, sample))
}

function readingOf(reading: MeteredWhole, sample: TextSample): AnswerReading {
  if (reading.kind === 'answer')
    return {
      usage: reading.usage,
      outputBytes: reading.textBytes + reading.reasoningBytes,
      sample,
    }
  const fault = reading.kind === 'error' ? 'the response is an error' : reading.reason
  return { usage: undefined, outputBytes: 0, fault }
}

/** The gateway always requests usage for a stream, because billing needs it. */
const streamOptions = (parsed: RequestBody) => ({
  stream_options: { ...(parsed.stream_options as RequestBody | null | undefined), include_usage: true },
})

/** A host whose dialect rejects `stream_options` reports usage without them. */
const reportsUsageAnyway = ({ provider }: RelayChannel): boolean =>
  provider.encoding?.dialect?.needless.includes('stream_options') === true

const hasStreamOptions = (parsed: RequestBody) => (parsed.stream_options ?? undefined) !== undefined

export const usageOptionsOf = ({ provider }: RelayChannel) => provider.usage ?? {}

/** The token bounds and estimates of a chat in any format. */
export const generationBounds = (facts: ChatFacts, parsed: RequestBody, bytes: Buffer) => {
  const { furtherInferences = 0, outputBeside = 0, choicesMade = facts.n } = facts
  return {
    model: facts.model,
    isStream: facts.stream,
    inputTokens: inputBound(facts) * (1 + furtherInferences),
    ...texts(facts, parsed, bytes),
    countedInput: Math.ceil(countedInput({ ...facts, textBytes: facts.textBytes - facts.overhead })),
    // The client's limit applies to the answer. Further inferences of the vendor are limited by the model only.
    outputTokens: (maximum: number | undefined) =>
      ((facts.maxOutput ?? maximum ?? 0) + outputBeside) * choicesMade +
      (maximum ?? facts.maxOutput ?? 0) * furtherInferences,
    ...(furtherInferences > 0 && { boundText: () => undefined }),
    outputLimit: (maximum: number | undefined) =>
      limitOf(facts.maxOutput ?? maximum, choicesMade, outputBeside),
  }
}

const limitOf = (limit: number | undefined, choices: number, beside = 0) =>
  limit === undefined ? undefined : (limit + beside) * choices

type GenerationFacts = PromptSize & {
  readonly model: string
  readonly stream: boolean
  readonly includeUsage: boolean
  /** The choices of the answer, which is complete when each of them has finished. */
  readonly n: number
}

type NativeSource = ReadBody & {
  readonly serviceRequests: readonly ServiceRequest[]
  readonly tools: RequestedTools
}

/** The native format of chat completions and of plain completions. */
const textGeneration = (facts: GenerationFacts, parsed: RequestBody, source: NativeSource): NativeFormat => ({
  encode(channel: RelayChannel, sentModel: string, limits?: WorkLimits) {
    const omitted = omittedServices(source.serviceRequests, limits?.granted(channel))
    const tools = editsFor(parsed, source.tools, toolTermsOn(channel, limits))
    const needsUsageOption = facts.stream && !facts.includeUsage && !reportsUsageAnyway(channel)
    const metered = needsUsageOption ? streamOptions(parsed) : {}
    const more =
      omitted || tools ? { ...metered, ...omitted?.edits, ...editsOfBytes(tools, source) } : metered
    return withWarnings(
      encodedBody(source, facts.model, sentModel, channel, more),
      omitted,
      toolWarnings(tools),
    )
  },
  readers: channel => ({
    readBuffered: ({ body }) => readBuffered(body, { usageOptions: usageOptionsOf(channel) }),
    meter() {
      const meter = createStreamMeter({
        includeUsage: facts.includeUsage,
        choices: facts.n,
        usageOptions: usageOptionsOf(channel),
        endsInDone: true,
      })
      return channel.provider.encoding?.dialect ? fittingChunks(meter) : meter
    },
  }),
})

/** The meter for a host with a dialect. It rewrites chunks that clients cannot parse before it meters them. */
function fittingChunks(meter: AnswerMeter): AnswerMeter {
  const fitter = createChunkFitter()
  return {
    ...meter,
    push: chunk => fitter.push(chunk).flatMap(piece => meter.push(piece)),
    end: () => [...fitter.end().flatMap(piece => meter.push(piece)), ...meter.end()],
  }
}

const formatOf = chatFormat('openai-chat')

export const chat = {
  operation: 'chat',
  format: 'openai-chat',
  formatFor: formatOf,
  skims: true,
  read(parsed, bytes, readContext, members): Work {
    const facts = mustRead(readChatRequest(parsed))
    const hasAnswers = (parsed.messages as readonly unknown[]).length > 1
    const serviceRequests = serviceRequestsIn(parsed)
    const tools = toolsIn(parsed)
    const source = {
      format: openaiChat,
      formatOf,
      bytes,
      members,
      parsed,
      choices: facts.n,
      hasAnswers,
      serviceRequests,
      tools,
    }
    return {
      ...generationBounds(facts, parsed, bytes),
      hasStreamOptions: hasStreamOptions(parsed),
      tools,
      ...priceConditionsOf(serviceRequests, searchKindOf(tools)),
      ...createTranslation(source, textGeneration(facts, parsed, source), readContext),
    }
  },
} satisfies OperationSpec

export const completions = {
  operation: 'completions',
  format: 'openai',
  skims: true,
  read(parsed, bytes, _readContext, members): Work {
    const facts = mustRead(readCompletionRequest(parsed))
    const serviceRequests = serviceRequestsIn(parsed)
    const tools = toolsIn(parsed)
    const native = textGeneration(facts, parsed, { bytes, members, serviceRequests, tools })
    return {
      model: facts.model,
      tools,
      ...priceConditionsOf(serviceRequests, searchKindOf(tools)),
      isStream: facts.stream,
      hasStreamOptions: hasStreamOptions(parsed),
      inputTokens: inputBound(facts),
      requestFor: (channel, sentModel, limits) => ({
        ...native.encode(channel, sentModel, limits),
        ...native.readers(channel),
      }),
      ...texts(facts, parsed, bytes),
      countedInput: Math.ceil(countedInput(facts)),
      outputTokens: maximum => (facts.maxOutput ?? maximum ?? 0) * facts.choices,
      outputLimit: maximum => limitOf(facts.maxOutput ?? maximum, facts.choices),
    }
  },
} satisfies OperationSpec
