import { type PromptSize, sizeOf } from '../metering/prompt-size.ts'
import { type RequestReading, readRequest } from './request-fields.ts'
import { readTextInput } from './token-input.ts'

/** What routing and billing need of a request for a plain completion. */
type CompletionFacts = PromptSize & {
  readonly model: string
  readonly stream: boolean
  /** Completions that are made and paid for: of every prompt, `best_of` or `n`, whichever is more. */
  readonly choices: number
  /** Choices that are sent back. */
  readonly n: number
  /** Tokens that each of them may have; undefined where the request sets no limit, which hosts take as they like. */
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
    // None at all, with `echo` and `logprobs`, is how texts are scored.
    const maxOutput = fields.outputLimit(0)
    const includeUsage = fields.includeUsage()
    if (prompt === undefined) return undefined
    const choices = prompt.count * Math.max(n, bestOf)
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
