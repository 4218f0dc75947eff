import { member } from '../domain/json-value.ts'
import { EMPTY, type Usage, wholeSeconds } from '../domain/usage.ts'
import { MAX_COUNT, vendorCostIn } from './openai-usage.ts'

const isCount = (value: unknown): value is number =>
  typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= MAX_COUNT

const countIn = (value: unknown, name: string): number => {
  const count = member(value, name)
  return isCount(count) ? count : 0
}

const MAX_SECONDS = 1e7

/** A plausible length, rounded up to seconds. */
export const secondsIn = (value: unknown): number | undefined =>
  typeof value === 'number' && value >= 0 && value <= MAX_SECONDS ? wholeSeconds(value) : undefined

/**
 * Reads the usage of operations other than chat: `input_tokens` and `output_tokens` with details, or `seconds`. Undefined
 * if it is invalid.
 */
export function readMediaUsage(value: unknown): Usage | undefined {
  if (member(value, 'type') === 'duration') {
    const seconds = secondsIn(member(value, 'seconds'))
    return seconds === undefined ? undefined : { ...EMPTY, seconds, calls: 1 }
  }
  const input = member(value, 'input_tokens')
  const output = member(value, 'output_tokens') ?? 0
  if (!isCount(input) || !isCount(output)) return undefined
  const inputDetails = member(value, 'input_token_details') ?? member(value, 'input_tokens_details')
  const outputDetails = member(value, 'output_token_details') ?? member(value, 'output_tokens_details')
  const cached = Math.min(countIn(inputDetails, 'cached_tokens'), input)
  const audio = Math.min(countIn(inputDetails, 'audio_tokens'), input - cached)
  const image = Math.min(countIn(inputDetails, 'image_tokens'), input - cached - audio)
  const audioOut = Math.min(countIn(outputDetails, 'audio_tokens'), output)
  const imageOut = Math.min(countIn(outputDetails, 'image_tokens'), output - audioOut)
  const vendorCost = vendorCostIn(value)
  return {
    ...EMPTY,
    input: input - cached - audio - image,
    cachedInput: cached,
    audioInput: audio,
    imageInput: image,
    output: output - audioOut - imageOut,
    audioOutput: audioOut,
    imageOutput: imageOut,
    calls: 1,
    ...(vendorCost !== undefined && { vendorCost }),
  }
}
