import { countedUsage, totalOutput, type Usage } from '../../domain/usage.ts'
import type { StreamEnding, StreamReading } from '../../metering/stream-meter.ts'
import type { TextSample } from '../../metering/text-sample.ts'
import type { Work } from '../operations/operation.ts'
import { MAX_COUNTED_LENGTH, type TokenCounter } from './token-count.ts'

/** A rough average, charged if nothing better is available. */
const BYTES_PER_TOKEN = 4
export const tokensOf = (bytes: number) => Math.ceil(bytes / BYTES_PER_TOKEN)

/** Other vendors' tokenizers yield more tokens than ours, but less than half as many again. */
const OTHER_TABLES = 1.5

export type CountedUsage = { readonly usage: Usage; readonly by: 'o200k_base' | 'bytes' }

export type CountedOutput = { readonly bytes: number; readonly sample?: Pick<TextSample, 'text'> | undefined }

/** Extrapolates the tokens of a text from a sample of its beginning. */
async function countLike(
  counter: TokenCounter,
  { text, bytes }: { readonly text: string; readonly bytes: number },
): Promise<number | undefined> {
  if (bytes === 0) return 0
  const sampled = Buffer.byteLength(text)
  const tokens = sampled === 0 ? undefined : await counter.count(text)
  return tokens === undefined ? undefined : Math.ceil(tokens * Math.max(1, bytes / sampled))
}

/** Counts the usage of a request if its provider reports none; `guess` estimates it if the text cannot be counted. */
export async function countUsage(
  counter: TokenCounter,
  work: Work,
  { bytes, sample }: CountedOutput,
  guess: (outputTokens: number) => Usage,
): Promise<CountedUsage> {
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

/** Bytes that were generated after the last usage report. The last report of a complete answer covers all of them. */
function bytesSinceUsage(reading: StreamReading, ending: StreamEnding): number {
  const { usage, textBytes, reasoningBytes, bytesAtUsage } = reading
  const later = usage === undefined ? 0 : textBytes + reasoningBytes - bytesAtUsage
  // Some providers report the prompt at the beginning, and nothing after that.
  const isBeginning = usage !== undefined && bytesAtUsage === 0 && totalOutput(usage) === 0
  return ending === 'complete' && !isBeginning ? 0 : later
}

/** Adds the tokens that were generated after the reported usage. */
function withLater(usage: Usage, { bytesAtUsage }: StreamReading, tokens: number): Usage {
  // A count that was reported before any text is a forecast; a later one covers the text so far.
  return { ...usage, output: bytesAtUsage === 0 ? Math.max(usage.output, tokens) : usage.output + tokens }
}

/** A rough estimate of the usage of a stream so far, without counting. */
export function usageSoFar(reading: StreamReading, guess: (outputTokens: number) => Usage): Usage {
  const { usage, textBytes, reasoningBytes } = reading
  return usage === undefined
    ? guess(tokensOf(textBytes + reasoningBytes))
    : withLater(usage, reading, tokensOf(bytesSinceUsage(reading, 'incomplete')))
}

type Streamed = {
  readonly reading: StreamReading
  readonly sample?: Pick<TextSample, 'text'> | undefined
  ending(): StreamEnding
}

/**
 * The usage that the provider of a stream reported, plus a count of later output: a stream that was cut, or whose client
 * disconnected, has often reported the prompt only. Undefined: nothing was reported.
 */
export async function reportedUsage(
  counter: TokenCounter,
  streamed: Streamed,
): Promise<{ readonly usage: Usage; readonly by: CountedUsage['by'] | undefined } | undefined> {
  const { reading, sample } = streamed
  const { usage } = reading
  if (usage === undefined) return undefined
  const bytes = bytesSinceUsage(reading, streamed.ending())
  if (bytes === 0) return { usage, by: undefined }
  const text = sample?.text() ?? ''
  const tokens = text === '' ? undefined : await counter.count(text)
  return tokens === undefined
    ? { usage: withLater(usage, reading, tokensOf(bytes)), by: 'bytes' }
    : {
        usage: withLater(usage, reading, Math.ceil((tokens * bytes) / Buffer.byteLength(text))),
        by: 'o200k_base',
      }
}

/** A tighter bound of the input than its bytes; undefined: there is none. */
export async function tighterInputBound(counter: TokenCounter, work: Work): Promise<number | undefined> {
  // A text never has more characters than bytes, so a body above this limit need not be decoded.
  if (work.inputTokens > 4 * MAX_COUNTED_LENGTH) return undefined
  const bound = work.boundText?.()
  const tokens = bound && (await counter.count(bound.text))
  if (bound === undefined || tokens === undefined) return undefined
  const closer = Math.ceil(tokens * OTHER_TABLES) + bound.extra
  return closer < work.inputTokens ? closer : undefined
}
