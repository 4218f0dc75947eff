import { type ChatFacts, readChatRequest } from '../../formats/openai/chat-request.ts'
import { readCompletionRequest } from '../../formats/openai/completion-request.ts'
import { inputBound, type PromptSize } from '../../formats/openai/prompt-size.ts'
import { promptText } from '../../formats/openai/prompt-text.ts'
import { createStreamMeter } from '../../formats/openai/stream-meter.ts'
import { createTextSample } from '../../formats/openai/text-sample.ts'
import { meterWhole, type WholeMeterOptions } from '../../formats/openai/whole-meter.ts'
import { openaiChat } from '../../formats/openai-chat/format.ts'
import type { RelayChannel } from '../catalog.ts'
import type { Limits, OperationSpec, WholeReading, Work } from './operation.ts'
import { asking, leftOut, type Wish, wishesIn, withWarnings } from './services.ts'
import { chatFormat, translating } from './translate.ts'
import { type Body, dressed, mustRead, type Written } from './written.ts'

/** Four bytes of text are a token, more or less. */
const BYTES_PER_TOKEN = 4

/** What is held for a picture or sound is the most there can be; this is what it may well be. */
const mediaTokens = ({ media }: PromptSize) => inputBound({ textBytes: 0, media }) / 16

export const countedInput = (size: PromptSize) =>
  Math.ceil(size.textBytes / BYTES_PER_TOKEN) + mediaTokens(size)

/** The texts of a request, for whoever has to count them. */
export const texts = (facts: PromptSize & { readonly overhead?: number }, parsed: Body, bytes: Buffer) => ({
  promptText: () => promptText(parsed, mediaTokens(facts)),
  // Pictures and sounds are bound by their kind: there is nothing to count in them.
  boundText: () =>
    mediaTokens(facts) > 0 ? undefined : { text: bytes.toString('utf8'), extra: facts.overhead ?? 0 },
})

export function readWhole(body: Buffer, options: WholeMeterOptions): WholeReading {
  const sample = createTextSample()
  const reading = meterWhole(body, { ...options, sample })
  if (reading.kind === 'answer')
    return {
      usage: reading.usage,
      outputBytes: reading.textBytes + reading.reasoningBytes,
      sample,
    }
  const fault = reading.kind === 'error' ? 'the answer is an error' : reading.reason
  return { usage: undefined, outputBytes: 0, fault }
}

/** Usage is asked for whether or not the client did: the books need it. */
const streamOptions = (parsed: Body) => ({
  stream_options: { ...(parsed.stream_options as Body | null | undefined), include_usage: true },
})

const hasStreamOptions = (parsed: Body) => (parsed.stream_options ?? undefined) !== undefined

export const usageOptionsOf = ({ provider }: RelayChannel) => provider.usage ?? {}

/** What a chat comes to, in whichever format. */
export const generation = (facts: ChatFacts, parsed: Body, bytes: Buffer) => ({
  model: facts.model,
  isStream: facts.stream,
  inputTokens: inputBound(facts),
  ...texts(facts, parsed, bytes),
  countedInput: Math.ceil(countedInput({ ...facts, textBytes: facts.textBytes - facts.overhead })),
  outputTokens: (maximum: number | undefined) =>
    ((facts.maxOutput ?? maximum ?? 0) + (facts.outputBeside ?? 0)) * (facts.choicesMade ?? facts.n),
})

type Generation = PromptSize & {
  readonly model: string
  readonly stream: boolean
  readonly includeUsage: boolean
  /** Choices that are sent back: an answer is whole when each of them has finished. */
  readonly n: number
}

type Wishing = Written & { readonly wishes: readonly Wish[] }

/** What chat and plain completions have in common: text is generated, whole or as a stream. */
const generating = (facts: Generation, parsed: Body, written: Wishing) => ({
  dress(channel: RelayChannel, sent: string, limits?: Limits) {
    const left = leftOut(written.wishes, channel, limits)
    const metered = facts.stream && !facts.includeUsage ? streamOptions(parsed) : {}
    const more = left ? { ...metered, ...left.edits } : metered
    return withWarnings(dressed(written, facts.model, sent, channel, more), left)
  },
  readWhole: (body: Buffer, channel: RelayChannel) =>
    readWhole(body, { usageOptions: usageOptionsOf(channel) }),
  meter: (channel: RelayChannel) =>
    createStreamMeter({
      includeUsage: facts.includeUsage,
      choices: facts.n,
      usageOptions: usageOptionsOf(channel),
      endsInDone: true,
    }),
})

const formatOf = chatFormat('openai-chat')

export const chat = {
  operation: 'chat',
  format: 'openai-chat',
  formatFor: formatOf,
  skims: true,
  read(parsed, bytes, desk, members): Work {
    const facts = mustRead(readChatRequest(parsed))
    const goesOn = (parsed.messages as readonly unknown[]).length > 1
    const wishes = wishesIn(parsed)
    const told = { format: openaiChat, formatOf, bytes, members, parsed, choices: facts.n, goesOn, wishes }
    return {
      ...generation(facts, parsed, bytes),
      hasStreamOptions: hasStreamOptions(parsed),
      ...asking(wishes),
      ...translating(told, generating(facts, parsed, told), desk),
    }
  },
} satisfies OperationSpec

export const completions = {
  operation: 'completions',
  format: 'openai',
  skims: true,
  read(parsed, bytes, _desk, members): Work {
    const facts = mustRead(readCompletionRequest(parsed))
    const wishes = wishesIn(parsed)
    return {
      model: facts.model,
      ...asking(wishes),
      isStream: facts.stream,
      hasStreamOptions: hasStreamOptions(parsed),
      inputTokens: inputBound(facts),
      ...generating(facts, parsed, { bytes, members, wishes }),
      ...texts(facts, parsed, bytes),
      countedInput: Math.ceil(countedInput(facts)),
      outputTokens: maximum => (facts.maxOutput ?? maximum ?? 0) * facts.choices,
    }
  },
} satisfies OperationSpec
