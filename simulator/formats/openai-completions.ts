import { type AnswerChoice, answer, type SimulatedChat } from '../answer.ts'
import { ProviderError } from '../provider-error.ts'
import { steer } from '../steering.ts'
import type { Inquiry, Reply, StreamFrame } from './format.ts'
import {
  CHOICE_LIMIT,
  countPassage,
  decodeCount,
  decodePassages,
  decodeRequest,
  type Passage,
  requestsUsage,
} from './openai-request.ts'
import { EVENT_STREAM, interleave, wrapChunks } from './openai-stream.ts'

const FINGERPRINT = 'fp_simulator'

type Envelope = { readonly id: string; readonly created: number; readonly model: string }

/** OpenAI's older endpoint, which continues texts. Every prompt gets n choices. */
export function answerCompletions({ id, time, headers, body }: Inquiry): Reply {
  const { request, model } = decodeRequest(body)
  const prompts = decodePassages(request, 'prompt', CHOICE_LIMIT)
  const count = decodeCount(request, 'n', CHOICE_LIMIT) ?? 1
  if (prompts.length * count > CHOICE_LIMIT) {
    throw new ProviderError(
      'bad_value',
      `There may be ${CHOICE_LIMIT} choices for all prompts together.`,
      'n',
    )
  }
  const maxTokens = decodeCount(request, 'max_tokens') ?? Number.POSITIVE_INFINITY
  const words = steer('words', headers, model)
  const choices = prompts.flatMap(prompt => {
    const ask = askAbout(prompt, { model, words, maxTokens })
    return Array.from({ length: count }, (_, at) => answer(ask, at))
  })
  const promptTokens = prompts.reduce((sum, prompt) => sum + countPassage(prompt), 0)
  const tokens = choices.reduce((sum, choice) => sum + choice.tokenCount, 0)
  const usage = {
    prompt_tokens: promptTokens,
    completion_tokens: tokens,
    total_tokens: promptTokens + tokens,
  }
  const envelope = { id: `cmpl-${id}`, created: Math.floor(time.getTime() / 1000), model }
  const bill = { id: envelope.id, model, promptTokens }
  if (request.stream !== true) {
    return { kind: 'whole', body: encodeWhole(envelope, choices, usage), tokens, bill }
  }
  const frames = encodeStream(envelope, choices, requestsUsage(request) ? usage : undefined)
  return { kind: 'stream', contentType: EVENT_STREAM, frames, bill }
}

function askAbout(
  prompt: Passage,
  options: Pick<SimulatedChat, 'model' | 'words' | 'maxTokens'>,
): SimulatedChat {
  return {
    ...options,
    promptTokens: countPassage(prompt),
    // The simulator has no vocabulary, so token numbers have no text.
    lastMessage: { by: 'user', text: typeof prompt === 'string' ? prompt : '' },
    tools: [],
    toolMode: 'none',
    allowsParallelCalls: false,
    json: undefined,
  }
}

function finishReason({ isCut }: AnswerChoice): string {
  return isCut ? 'length' : 'stop'
}

function encodeWhole(
  { id, created, model }: Envelope,
  choices: readonly AnswerChoice[],
  usage: object,
): string {
  return JSON.stringify({
    id,
    object: 'text_completion',
    created,
    model,
    choices: choices.map((choice, index) => ({
      text: choice.text.join(''),
      index,
      logprobs: null,
      finish_reason: finishReason(choice),
    })),
    usage,
    system_fingerprint: FINGERPRINT,
  })
}

function* encodeStream(
  envelope: Envelope,
  choices: readonly AnswerChoice[],
  usage?: object,
): Generator<StreamFrame> {
  const { id, created, model } = envelope
  const common = { id, object: 'text_completion', created, model, system_fingerprint: FINGERPRINT }
  const { head, tail, close } = wrapChunks(common, usage)
  yield* interleave(choices.map((choice, index) => encodeChoice(choice, index, { head, tail })))
  yield* close()
}

function* encodeChoice(
  choice: AnswerChoice,
  index: number,
  { head, tail }: { head: string; tail: string },
): Generator<StreamFrame> {
  const after = `,"index":${index},"logprobs":null,"finish_reason":`
  for (const token of choice.text) {
    yield { data: `${head}{"text":${JSON.stringify(token)}${after}null}${tail}`, tokens: 1 }
  }
  yield { data: `${head}{"text":""${after}"${finishReason(choice)}"}${tail}`, tokens: 0 }
}
