import { createChunkFitter } from '../../chat/openai/chat-completions/chunk-fitter.ts'
import { openaiChat } from '../../chat/openai/chat-completions/format.ts'
import { inputBound, type PromptSize } from '../../metering/prompt-size.ts'
import { type AnswerMeter, createStreamMeter, delegate } from '../../metering/stream-meter.ts'
import {
  type WholeReading as MeteredWhole,
  meterLarge,
  meterWhole,
  type WholeMeterOptions,
} from '../../metering/whole-meter.ts'
import { readChatRequest } from '../../requests/chat-request.ts'
import { readCompletionRequest } from '../../requests/completion-request.ts'
import type { RequestedTools } from '../../requests/provider-tools.ts'
import { SLICED_BYTES } from '../../wire/json-slices.ts'
import type { RelayChannel } from '../catalog/catalog.ts'
import type { AnswerReading, UpstreamBody, WorkLimits } from './channel-request.ts'
import { boundTextOf, ChatWork, countedInput, limitIn, limitOf, promptTextOf } from './chat-work.ts'
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
import { chatFormat, type NativeFormat, nativeRequest } from './translate.ts'

export function readBuffered(
  body: Buffer,
  options: WholeMeterOptions,
): AnswerReading | Promise<AnswerReading> {
  return body.length <= SLICED_BYTES
    ? readingOf(meterWhole(body, options))
    : meterLarge(body, options).then(readingOf)
}

function readingOf(reading: MeteredWhole): AnswerReading {
  if (reading.kind === 'answer')
    return {
      usage: reading.usage,
      outputBytes: reading.textBytes + reading.reasoningBytes,
      sample: reading.sample,
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
class TextGeneration implements NativeFormat {
  readonly #facts: GenerationFacts
  readonly #parsed: RequestBody
  readonly #source: NativeSource

  constructor(facts: GenerationFacts, parsed: RequestBody, source: NativeSource) {
    this.#facts = facts
    this.#parsed = parsed
    this.#source = source
  }

  encode(channel: RelayChannel, sentModel: string, limits?: WorkLimits): UpstreamBody {
    const facts = this.#facts
    const source = this.#source
    const omitted = omittedServices(source.serviceRequests, limits?.granted(channel))
    const tools = editsFor(this.#parsed, source.tools, toolTermsOn(channel, limits))
    const needsUsageOption = facts.stream && !facts.includeUsage && !reportsUsageAnyway(channel)
    const metered = needsUsageOption ? streamOptions(this.#parsed) : NO_MEMBERS
    const more =
      omitted || tools ? { ...metered, ...omitted?.edits, ...editsOfBytes(tools, source) } : metered
    return withWarnings(
      encodedBody(source, facts.model, sentModel, channel, more),
      omitted,
      toolWarnings(tools),
    )
  }

  readers(channel: RelayChannel): ReturnType<NativeFormat['readers']> {
    return {
      readBuffered: ({ body }) => readBuffered(body, { usageOptions: usageOptionsOf(channel) }),
      meter: () => this.#meterOn(channel),
    }
  }

  #meterOn(channel: RelayChannel): AnswerMeter {
    const meter = createStreamMeter({
      includeUsage: this.#facts.includeUsage,
      choices: this.#facts.n,
      usageOptions: usageOptionsOf(channel),
      endsInDone: true,
    })
    return channel.provider.encoding?.dialect ? fittingChunks(meter) : meter
  }
}

const NO_MEMBERS: RequestBody = {}

/** The meter for a host with a dialect. It rewrites chunks that clients cannot parse before it meters them. */
function fittingChunks(meter: AnswerMeter): AnswerMeter {
  const fitter = createChunkFitter()
  return {
    ...delegate(meter),
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
    const tools = toolsIn(parsed, openaiChat.turns)
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
    return new ChatWork({
      facts,
      source,
      native: new TextGeneration(facts, parsed, source),
      readContext,
      hasStreamOptions: hasStreamOptions(parsed),
    })
  },
} satisfies OperationSpec

export const completions = {
  operation: 'completions',
  format: 'openai',
  skims: true,
  read(parsed, bytes, _readContext, members): Work {
    const facts = mustRead(readCompletionRequest(parsed))
    const serviceRequests = serviceRequestsIn(parsed)
    const tools = toolsIn(parsed, openaiChat.turns)
    const native = new TextGeneration(facts, parsed, { bytes, members, serviceRequests, tools })
    const priceConditions = priceConditionsOf(serviceRequests, searchKindOf(tools))
    return {
      model: facts.model,
      tools,
      ...(priceConditions && { priceConditions }),
      isStream: facts.stream,
      hasStreamOptions: hasStreamOptions(parsed),
      inputTokens: inputBound(facts),
      requestFor: (...target) => nativeRequest(native, ...target),
      promptText: () => promptTextOf(facts, parsed),
      boundText: () => boundTextOf(facts, bytes),
      countedInput: Math.ceil(countedInput(facts)),
      outputTokens: maximum => (limitIn(facts.maxOutput) ?? maximum ?? 0) * facts.choices,
      outputLimit: maximum => limitOf(limitIn(facts.maxOutput) ?? maximum, facts.choices),
    }
  },
} satisfies OperationSpec
