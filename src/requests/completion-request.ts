import { type PromptSize, sizeOf } from '../metering/prompt-size.ts'
import { readChoicesMade } from './chat-request.ts'
import { type RequestReading, readRequest } from './request-fields.ts'
import { readTextInput } from './token-input.ts'

/** The facts of a plain completion request that routing and billing need. */
type CompletionFacts = PromptSize & {
  readonly model: string
  readonly stream: boolean
  /** Generated and billed completions: per prompt, the greatest of `n`, `best_of` and their other names. */
  readonly choices: number
  /** Returned choices. */
  readonly n: number
  /** The output limit of each choice; undefined: the request sets none, and defaults of hosts differ. */
  readonly maxOutput: number | undefined
  readonly includeUsage: boolean
}

const MAX_CHOICES = 128

export function readCompletionRequest(parsed: unknown): RequestReading<CompletionFacts> {
  return readRequest(parsed, (fields, body) => {
    const model = fields.model()
    const prompt = readTextInput(fields, 'prompt')
    const stream = fields.flag('stream')
    const n = fields.integer('n', MAX_CHOICES) ?? 1
    const bestOf = fields.integer('best_of', MAX_CHOICES) ?? n
    if (bestOf < n) fields.refuse('best_of', 'must be n or more')
    const choicesMade = readChoicesMade(fields)
    // A limit of 0 with `echo` and `logprobs` scores texts.
    const maxOutput = fields.outputLimit(0)
    const includeUsage = fields.includeUsage()
    if (prompt === undefined) return undefined
    const choices = prompt.count * Math.max(n, choicesMade)
    if (!Number.isSafeInteger((maxOutput ?? 0) * choices)) fields.refuse('max_tokens', 'is too large')
    const { textBytes, media } = sizeOf(body, ['prompt'])
    return {
      model,
      stream,
      choices,
      n: prompt.count * n,
      maxOutput,
      includeUsage,
      textBytes: textBytes + prompt.tokens,
      media,
    }
  })
}
