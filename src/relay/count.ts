import { countedUsage, type Usage } from '../domain/usage.ts'
import type { TextSample } from '../formats/openai/text-sample.ts'
import type { Work } from './operations/operation.ts'
import { MAX_COUNTED_LENGTH, type TokenCounter } from './token-count.ts'

/** Four bytes of text are a token, more or less: what is owed where nothing better can be had. */
const BYTES_PER_TOKEN = 4
export const tokensOf = (bytes: number) => Math.ceil(bytes / BYTES_PER_TOKEN)

/** Other vendors make more tokens of a text than the table we count with, but never half as many again. */
const OTHER_TABLES = 1.5

export type Counted = { readonly usage: Usage; readonly by: 'o200k_base' | 'bytes' }

export type Output = { readonly bytes: number; readonly sample?: TextSample | undefined }

/** Tokens of a text of which the beginning was counted: the rest is taken to be like it. */
async function countLike(
  counter: TokenCounter,
  { text, bytes }: { readonly text: string; readonly bytes: number },
): Promise<number | undefined> {
  if (bytes === 0) return 0
  const sampled = Buffer.byteLength(text)
  const tokens = sampled === 0 ? undefined : await counter.count(text)
  return tokens === undefined ? undefined : Math.ceil(tokens * Math.max(1, bytes / sampled))
}

/** What a request used, where its provider does not say; `guess` where its text cannot be counted. */
export async function countUsage(
  counter: TokenCounter,
  work: Work,
  { bytes, sample }: Output,
  guess: (outputTokens: number) => Usage,
): Promise<Counted> {
  const prompt = work.promptText?.()
  const [input, output] = await Promise.all([
    prompt && countLike(counter, prompt),
    countLike(counter, { text: sample?.text() ?? '', bytes }),
  ])
  const isCounted = prompt !== undefined && input !== undefined && output !== undefined
  return isCounted
    ? { usage: countedUsage(input + prompt.extra, output), by: 'o200k_base' }
    : { usage: guess(tokensOf(bytes)), by: 'bytes' }
}

/** A closer bound of the input than its bytes; undefined where there is none. */
export async function closerInput(counter: TokenCounter, work: Work): Promise<number | undefined> {
  // Bytes are never fewer than letters, so that a longer body need not be made a text to know.
  if (work.inputTokens > 4 * MAX_COUNTED_LENGTH) return undefined
  const bound = work.boundText?.()
  const tokens = bound && (await counter.count(bound.text))
  if (bound === undefined || tokens === undefined) return undefined
  const closer = Math.ceil(tokens * OTHER_TABLES) + bound.extra
  return closer < work.inputTokens ? closer : undefined
}
