import type { Price } from './price.ts'
import { isPerToken, type Rates, rateUsd, UNIT_RATES } from './rate.ts'

/** A price as ratios, the form that clients of One API and New API read. */
export type Ratios = {
  readonly model_ratio: number
  readonly completion_ratio: number
  readonly cache_ratio: number
  readonly create_cache_ratio: number
  readonly audio_ratio: number
  readonly audio_completion_ratio: number
  readonly image_ratio: number
  readonly model_price: number
}

// A ratio of 1 is 2 USD per million input tokens: one unit a token.
const USD_PER_MILLION_AT_RATIO_1 = 2

/**
 * Ratios of the rates outside tiers and variants. The ratio of an absent rate is that of its fallback: input for cached,
 * cache-write, audio and image input, output for audio output.
 */
export function ratios({ rates }: Price): Ratios {
  const { input = 0, output = 0 } = rates
  const audioInput = rates.audio_input ?? input
  return {
    model_ratio: rateUsd('input', input) / USD_PER_MILLION_AT_RATIO_1,
    completion_ratio: ratio(output, input),
    cache_ratio: ratio(rates.cached_input ?? input, input),
    create_cache_ratio: ratio(rates.cache_write ?? input, input),
    audio_ratio: ratio(audioInput, input),
    audio_completion_ratio: ratio(rates.audio_output ?? output, audioInput),
    image_ratio: ratio(rates.image_input ?? input, input),
    model_price: isPerToken(rates) ? 0 : unitUsd(rates),
  }
}

/** With free input the ratio is undefined. Clients of One API assume 1 for an absent ratio. */
const ratio = (rate: number, base: number): number => (base === 0 ? 1 : rate / base)

function unitUsd(rates: Rates): number {
  for (const name of UNIT_RATES) {
    const picos = rates[name]
    if (picos !== undefined) return rateUsd(name, picos)
  }
  return 0
}
