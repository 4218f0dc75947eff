import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import {
  bound,
  cost,
  grantedConditions,
  possiblePrices,
  priceAt,
  tokenBound,
  type UsageBound,
} from '../../src/domain/cost.ts'
import type { Price, PriceInput, When } from '../../src/domain/price.ts'
import { readPrice } from '../../src/domain/price.ts'
import { MAX_RATE_PICOS, type Rates, TOKEN_RATES } from '../../src/domain/rate.ts'
import {
  type Count,
  EMPTY,
  INPUT_COUNTS,
  OUTPUT_COUNTS,
  totalInput,
  totalOutput,
  type Usage,
} from '../../src/domain/usage.ts'
import { readOpenAiUsage } from '../../src/metering/openai-usage.ts'
import { fc } from '../support/properties.ts'

/** A price from the dollars that an administrator enters. */
function priced(input: PriceInput): Price {
  const reading = readPrice(input)
  assert.ok('price' in reading, JSON.stringify(reading))
  return reading.price
}

const used = (counts: Partial<Usage>): Usage => ({ ...EMPTY, ...counts })

describe('the cost of a request', () => {
  it('is the sum over its token types, each at its own rate', () => {
    const rates = Object.fromEntries(TOKEN_RATES.map((name, index) => [name, 10 ** index * 1_000])) as Rates
    const all = Object.fromEntries(
      [...INPUT_COUNTS, ...OUTPUT_COUNTS].map((name, index) => [name, index + 1]),
    )
    // input 1, cached 2, written 3, written for an hour 4, audio in 5, image in 6, out 7, reasoning 8, audio out 9, image out 10
    const expected =
      1 + 70 + 200 + 3_000 + 40_000 + 800_000 + 5_000_000 + 90_000_000 + 600_000_000 + 10_000_000_000
    assert.equal(cost({ rates }, used(all)), expected)
  })

  it('equals the vendor’s own sum: a cache write at its own price', () => {
    // Recorded: prompt 1,220 of which 1,217 written, completion 100.
    const price = priced({ input: 1.25, cache_write: 1.5625, output: 10 })
    const usage = used({ input: 3, cacheWrite: 1_217, reasoning: 100, calls: 1 })
    assert.equal(cost(price, usage), Math.ceil(3 * 1_250 + 1_217 * 1_562.5 + 100 * 10_000))
  })

  it('distinguishes a cache of an hour from a short one', () => {
    const price = priced({ input: 3, cache_write: 3.75, cache_write_1h: 6, output: 15 })
    assert.equal(cost(price, used({ input: 17, cacheWrite1h: 2_056, output: 100 })), 13_887_000)
    assert.equal(cost(price, used({ input: 17, cacheWrite: 2_056, output: 100 })), 9_261_000)
  })

  it('equals what the vendor itself reports, to the last digit', () => {
    // xAI reports its charge in ticks, 10^10 to the dollar; OpenRouter in dollars.
    const grok = priced({ input: 0.3, cached_input: 0.075, output: 0.5 })
    const recorded = [
      [12, 2, 1, 228, 1_176_500],
      [12, 11, 1, 290, 1_466_250],
      [291, 290, 26, 196, 1_330_500],
    ] as const
    for (const [prompt, cached, completion, reasoning, ticks] of recorded) {
      const usage = readOpenAiUsage(
        {
          prompt_tokens: prompt,
          completion_tokens: completion,
          total_tokens: prompt + completion + reasoning,
          prompt_tokens_details: { cached_tokens: cached },
          completion_tokens_details: { reasoning_tokens: reasoning },
        },
        { reasoningOutside: true },
      )
      assert.ok(usage)
      assert.equal(cost(grok, usage), ticks / 10)
    }
    const sonnet = priced({ input: 3, output: 15 })
    assert.equal(cost(sonnet, used({ input: 43, output: 23, reasoning: 13, calls: 1 })), 669_000)
  })

  it('charges a token type without its own rate at its fallback rate', () => {
    const price: Price = { rates: { input: 1_000, output: 7_000 } }
    for (const kind of INPUT_COUNTS) assert.equal(cost(price, used({ [kind]: 5 })), 5, kind)
    for (const kind of OUTPUT_COUNTS) assert.equal(cost(price, used({ [kind]: 5 })), 35, kind)
    const cacheWritePrice: Price = { rates: { input: 1_000, cache_write: 3_000 } }
    assert.equal(cost(cacheWritePrice, used({ cacheWrite1h: 5 })), 15)
  })

  it('charges nothing if a rate is set to 0', () => {
    const price: Price = { rates: { input: 1_000, cached_input: 0, output: 1_000, reasoning: 0 } }
    assert.equal(cost(price, used({ cachedInput: 9, reasoning: 9 })), 0)
    assert.equal(cost({ rates: { output: 1 } }, used({ input: 9 })), 0)
  })

  it('of no usage is zero', () => {
    assert.equal(cost(priced({ input: 3, output: 15 }), EMPTY), 0)
    assert.equal(cost(priced({ per_call: 1 }), EMPTY), 0)
  })

  it('is rounded up once, over the sum', () => {
    const price: Price = { rates: { input: 1, output: 1 } }
    assert.equal(cost(price, used({ input: 1 })), 1)
    assert.equal(cost(price, used({ input: 600, output: 400 })), 1)
    assert.equal(cost(price, used({ input: 600, output: 401 })), 2)
  })

  it('counts the calls of each tool that the provider ran', () => {
    const tools = { web_search: 0.01, file_search: 0.0025, code_interpreter: 0.03, image_generation: 0.25 }
    const calls = { searches: 2, fileSearches: 3, codeInterpreterCalls: 1, imageGenerationCalls: 4 }
    assert.equal(cost(priced({ input: 1, tools }), used(calls)), 1_057_500_000)
    assert.equal(cost(priced({ input: 1 }), used(calls)), 0)
  })

  it('combines a search type and a service tier, each from its own variant', () => {
    const price = priced({
      input: 1,
      per_search: 0.01,
      variants: [
        { when: { service_tier: 'priority' }, input: 2 },
        { when: { web_search: 'preview' }, per_search: 0.025 },
      ],
    })
    const both = priceAt(price, { service_tier: 'priority', web_search: 'preview' })
    assert.equal(cost(both, used({ input: 1_000_000, searches: 1 })), 2_025_000_000)
    assert.equal(cost(priceAt(price, {}), used({ input: 1_000_000, searches: 1 })), 1_010_000_000)
    const searchRates = possiblePrices(price, { web_search: 'preview' }).map(each => each.rates.per_search)
    assert.deepEqual(searchRates, [25_000_000_000])
  })

  it('counts characters, images, searches, seconds and calls', () => {
    assert.equal(cost(priced({ per_character: 0.000015 }), used({ characters: 4_096 })), 61_440_000)
    assert.equal(cost(priced({ image: 0.04 }), used({ images: 3 })), 120_000_000)
    assert.equal(cost(priced({ per_search: 0.002 }), used({ searches: 2 })), 4_000_000)
    assert.equal(cost(priced({ per_second: 0.1 }), used({ seconds: 8 })), 800_000_000)
    assert.equal(cost(priced({ per_call: 0.5 }), used({ calls: 1, input: 9, output: 9 })), 500_000_000)
    assert.equal(cost(priced({ per_call: 0.5 }), used({ calls: 4 })), 2_000_000_000)
  })

  it('charges a per-minute price by the second, exactly', () => {
    assert.equal(cost(priced({ per_minute: 0.006 }), used({ seconds: 60 })), 6_000_000)
    assert.equal(cost(priced({ per_minute: 0.006 }), used({ seconds: 4 })), 400_000)
    assert.equal(cost(priced({ per_minute: 0.0043 }), used({ seconds: 1 })), 71_667)
    // A sixtieth of a picodollar above a whole nanodollar is rounded up to the next one.
    assert.equal(cost({ rates: { per_minute: 60_000 } }, used({ seconds: 1 })), 1)
    assert.equal(cost({ rates: { per_minute: 60_001 } }, used({ seconds: 1 })), 2)
  })

  it('charges the length with a token price only if the response reports no tokens', () => {
    const price = priced({ input: 2.5, audio_input: 6, output: 10, per_second: 0.0001 })
    assert.equal(cost(price, used({ seconds: 10 })), 1_000_000)
    assert.equal(cost(price, used({ seconds: 10, audioInput: 100, output: 10 })), 700_000)
  })

  it('is exact beyond 9,007 USD, and an error if it could not be', () => {
    const price: Price = { rates: { input: 1e12 + 1 } }
    assert.equal(cost(price, used({ input: 9_000_000 })), 9_000_000 * 1e9 + 9_000)
    assert.throws(() => cost({ rates: { input: MAX_RATE_PICOS } }, used({ input: 1e10 })), RangeError)
    // 61 seconds of this cost a nanodollar and a sixtieth of a picodollar, and no number can represent the
    // product.
    const rate = 147_659_004_207_541
    assert.ok(61 * rate > Number.MAX_SAFE_INTEGER)
    const exact = (61n * BigInt(rate) + 59_999n) / 60_000n
    assert.equal(cost({ rates: { per_minute: rate } }, used({ seconds: 61 })), Number(exact))
  })
})

describe('the tiers of a price', () => {
  const price = priced({
    input: 1,
    cached_input: 0.1,
    output: 10,
    tiers: [
      { input_over: 200_000, input: 2, output: 15 },
      { input_over: 500_000, input: 4, output: 20, cached_input: 0.4 },
    ],
  })

  it('start above their limit, not at it', () => {
    assert.equal(cost(price, used({ input: 200_000 })), 200_000_000)
    assert.equal(cost(price, used({ input: 200_001 })), 400_002_000)
  })

  it('apply to every token of the request, and inherit rates that they do not set', () => {
    const usage = used({ input: 150_000, cachedInput: 50_001, output: 7 })
    assert.equal(cost(price, usage), 150_000 * 2_000 + 50_001 * 100 + 7 * 15_000)
  })

  it('are chosen by the whole prompt, including cached and media tokens', () => {
    const usage = used({ cachedInput: 400_000, cacheWrite: 50_000, audioInput: 25_000, imageInput: 25_001 })
    assert.equal(cost(price, usage), 400_000 * 400 + 100_001 * 4_000)
  })

  it('are not chosen by the length of the output', () => {
    assert.equal(cost(price, used({ input: 1, output: 900_000 })), 1_000 + 900_000 * 10_000)
  })
})

const rate = fc.oneof(fc.nat(10_000), fc.nat(10_000_000), fc.constant(0))
const rates = fc.record(
  Object.fromEntries(TOKEN_RATES.map(name => [name, rate])) as Record<
    (typeof TOKEN_RATES)[number],
    typeof rate
  >,
  { requiredKeys: [] },
)
const units = fc.record(
  { image: rate, per_second: rate, per_character: rate, per_search: rate, per_call: rate },
  { requiredKeys: [] },
)
const tier = fc.record({ inputOver: fc.nat(3_000), rates })
const price: fc.Arbitrary<Price> = fc
  .record({ rates, units, tiers: fc.uniqueArray(tier, { maxLength: 3, selector: each => each.inputOver }) })
  .map(({ rates, units, tiers }) => ({
    rates: { ...rates, ...units },
    tiers: tiers.sort((a, b) => a.inputOver - b.inputOver),
  }))
const usage = fc.record(
  Object.fromEntries(Object.keys(EMPTY).map(name => [name, fc.nat(1_000)])) as Record<
    Count,
    fc.Arbitrary<number>
  >,
)

/** The same rules, implemented directly with big integers. */
function reference({ rates, tiers = [] }: Price, usage: Usage): bigint {
  const reached = tiers.filter(tier => totalInput(usage) > tier.inputOver).at(-1)
  const at = { ...rates, ...reached?.rates }
  const input = at.input ?? 0
  const output = at.output ?? 0
  const cacheWriteRate = at.cache_write ?? input
  const terms: [number, number][] = [
    [usage.input, input],
    [usage.cachedInput, at.cached_input ?? input],
    [usage.cacheWrite, cacheWriteRate],
    [usage.cacheWrite1h, at.cache_write_1h ?? cacheWriteRate],
    [usage.audioInput, at.audio_input ?? input],
    [usage.imageInput, at.image_input ?? input],
    [usage.output, output],
    [usage.reasoning, at.reasoning ?? output],
    [usage.audioOutput, at.audio_output ?? output],
    [usage.imageOutput, at.image_output ?? output],
    [usage.images, at.image ?? 0],
    [usage.characters, at.per_character ?? 0],
    [usage.searches, at.per_search ?? 0],
    [usage.calls, at.per_call ?? 0],
  ]
  const hasTokens = totalInput(usage) + totalOutput(usage) > 0
  const isPerToken = TOKEN_RATES.some(name => rates[name] !== undefined)
  if (!(hasTokens && isPerToken)) terms.push([usage.seconds, at.per_second ?? 0])
  const picos = terms.reduce((sum, [count, rate]) => sum + BigInt(count) * BigInt(rate), 0n)
  return (picos + 999n) / 1000n
}

describe('for any price and usage', () => {
  it('a cost is the exact sum, rounded up', () => {
    fc.assert(
      fc.property(price, usage, (price, usage) => {
        assert.equal(BigInt(cost(price, usage)), reference(price, usage))
      }),
      { numRuns: 2_000 },
    )
  })

  it('the exact sum stays exact with the largest rates and counts', () => {
    const huge = fc.record({ input: fc.nat(MAX_RATE_PICOS), output: fc.nat(MAX_RATE_PICOS) })
    const many = fc.record({ input: fc.nat(9_000), output: fc.nat(9_000) })
    fc.assert(
      fc.property(huge, many, (rates, counts) => {
        const expected = reference({ rates }, used(counts))
        if (expected > Number.MAX_SAFE_INTEGER) assert.throws(() => cost({ rates }, used(counts)), RangeError)
        else assert.equal(BigInt(cost({ rates }, used(counts))), expected)
      }),
    )
  })
})

/** The smallest limits that include a usage. */
const limitsOf = (usage: Usage): UsageBound => {
  const { calls, characters, seconds, images, searches } = usage
  const inputTokens = totalInput(usage)
  return { inputTokens, outputTokens: totalOutput(usage), calls, characters, seconds, images, searches }
}

describe('the upper bound of a request’s cost', () => {
  it('is never below the cost of any usage within its limits', () => {
    const room = fc.tuple(fc.nat(4_000), fc.nat(4_000))
    fc.assert(
      fc.property(price, usage, room, (price, usage, [moreInput, moreOutput]) => {
        const limits = limitsOf(usage)
        const wider = {
          ...limits,
          inputTokens: limits.inputTokens + moreInput,
          outputTokens: limits.outputTokens + moreOutput,
        }
        assert.ok(bound(price, limits) >= cost(price, usage))
        assert.ok(bound(price, wider) >= cost(price, usage))
      }),
      { numRuns: 4_000 },
    )
  })

  it('grows with its limits', () => {
    fc.assert(
      fc.property(price, usage, fc.nat(4_000), (price, usage, more) => {
        const limits = limitsOf(usage)
        const least = bound(price, limits)
        assert.ok(bound(price, { ...limits, inputTokens: limits.inputTokens + more }) >= least)
        assert.ok(bound(price, { ...limits, outputTokens: limits.outputTokens + more }) >= least)
      }),
    )
  })

  it('is tight: some usage within the limits costs exactly that', () => {
    fc.assert(
      fc.property(price, fc.nat(5_000), fc.nat(5_000), (price, inputTokens, outputTokens) => {
        const lengths = [inputTokens, ...(price.tiers ?? []).map(tier => tier.inputOver)]
        const costs = lengths
          .filter(length => length <= inputTokens)
          .flatMap(length => INPUT_COUNTS.map(kind => ({ [kind]: length })))
          .flatMap(input => OUTPUT_COUNTS.map(kind => cost(price, used({ ...input, [kind]: outputTokens }))))
        assert.equal(bound(price, { inputTokens, outputTokens }), Math.max(...costs))
      }),
    )
  })

  it('is the same for requests without units, however large', () => {
    const size = fc.oneof(fc.nat(5_000), fc.maxSafeNat(), fc.constant(Number.POSITIVE_INFINITY))
    const outcomeOf = (work: () => number) => {
      try {
        return work()
      } catch (error) {
        return (error as Error).name
      }
    }
    fc.assert(
      fc.property(price, size, size, (price, inputTokens, outputTokens) => {
        const limits = { inputTokens, outputTokens, calls: 1 }
        assert.equal(
          outcomeOf(() => tokenBound(price, inputTokens, outputTokens)),
          outcomeOf(() => bound(price, limits)),
        )
      }),
      { numRuns: 2_000 },
    )
  })

  it('ignores a tier that starts above an empty prompt', () => {
    const price: Price = { rates: {}, tiers: [{ inputOver: 0, rates: { audio_output: 1_000 } }] }
    assert.equal(bound(price, { inputTokens: 0, outputTokens: 1 }), 0)
    assert.equal(bound(price, { inputTokens: 1, outputTokens: 1 }), 1)
  })

  it('uses the most expensive token type, and the most expensive tier the prompt can reach', () => {
    const price = priced({
      input: 2,
      audio_input: 40,
      output: 10,
      audio_output: 80,
      tiers: [{ input_over: 1_000, input: 100 }],
    })
    assert.equal(bound(price, { inputTokens: 10, outputTokens: 10 }), 10 * 40_000 + 10 * 80_000)
    assert.equal(bound(price, { inputTokens: 1_001, outputTokens: 0 }), 1_001 * 100_000)
  })

  it('ignores token types that the request cannot use', () => {
    const price = priced({ input: 2, audio_input: 40, output: 10, audio_output: 80 })
    const limits = { inputTokens: 10, outputTokens: 10, unreachable: ['audioInput', 'audioOutput'] } as const
    assert.equal(bound(price, limits), 10 * 2_000 + 10 * 10_000)
  })

  it('is not lowered by a longer prompt whose tier is cheaper', () => {
    const price = priced({ input: 10, output: 1, tiers: [{ input_over: 100, input: 1 }] })
    assert.equal(bound(price, { inputTokens: 101, outputTokens: 0 }), 1_000_000)
  })

  it('of calls, images, characters, seconds and searches is their cost', () => {
    assert.equal(
      bound(priced({ per_call: 0.5 }), { inputTokens: 9, outputTokens: 9, calls: 2 }),
      1_000_000_000,
    )
    const speech = { inputTokens: 0, outputTokens: 0, characters: 4_096 }
    assert.equal(bound(priced({ per_character: 0.000015 }), speech), 61_440_000)
    const either = priced({ input: 0, output: 10, per_second: 0.0001 })
    assert.equal(bound(either, { inputTokens: 0, outputTokens: 50, seconds: 10 }), 1_000_000)
    assert.equal(bound(either, { inputTokens: 0, outputTokens: 500, seconds: 10 }), 5_000_000)
  })
})

describe('the price of a service tier', () => {
  const price = priced({
    input: 1,
    output: 2,
    tiers: [{ input_over: 100, input: 3 }],
    variants: [
      { when: { service_tier: 'fast' }, input: 6, output: 12 },
      { when: { inference_geo: 'us' }, input: 1.1, output: 2.2 },
      { when: { service_tier: 'flex' }, input: 0.5, output: 1 },
      { when: { service_tier: 'flex', inference_geo: 'us' }, input: 0.55, output: 1.1 },
    ],
  })
  const usd = (conditions: When, input = 100) =>
    cost(priceAt(price, conditions), used({ input, output: 100 })) / 1e3

  it('is that of its variant, and the standard one if no variant names it', () => {
    assert.equal(usd({}), 300)
    assert.equal(usd({ service_tier: 'scale' }), 300)
    assert.equal(usd({ service_tier: 'fast' }), 1800)
    assert.equal(usd({ inference_geo: 'us' }), 330)
  })

  it('applies to two at once only if they are named together', () => {
    assert.deepEqual(grantedConditions(price, { service_tier: 'fast', inference_geo: 'us' }), {
      service_tier: 'fast',
    })
    assert.equal(usd({ service_tier: 'fast', inference_geo: 'us' }), 1800)
    assert.equal(usd({ service_tier: 'flex', inference_geo: 'us' }), 165)
    assert.deepEqual(grantedConditions(price, { service_tier: 'scale', inference_geo: 'us' }), {
      inference_geo: 'us',
    })
    assert.deepEqual(grantedConditions(price, { size: '1x1', service_tier: 'scale' }), { size: '1x1' })
  })

  it('has the same multiple of the standard price in a tier of long prompts', () => {
    assert.equal(usd({}, 200), 800)
    assert.equal(usd({ service_tier: 'fast' }, 200), 200 * 18 + 1200)
    assert.equal(usd({ service_tier: 'flex' }, 200), 400)
  })

  it('is held if it is requested, and only then', () => {
    const most = (conditions: When | undefined, inputTokens = 100) =>
      Math.max(
        ...possiblePrices(price, conditions).map(each => bound(each, { inputTokens, outputTokens: 100 })),
      ) / 1e3
    assert.equal(most(undefined), 300)
    assert.equal(most({ service_tier: 'scale' }), 300)
    assert.equal(most({ service_tier: 'fast' }), 1800)
    const anyService = fc.record(
      {
        service_tier: fc.constantFrom('fast', 'flex', 'scale'),
        inference_geo: fc.constantFrom('us', 'eu'),
      },
      { requiredKeys: [] },
    )
    fc.assert(
      fc.property(anyService, fc.nat(300), (conditions, input) => {
        assert.ok(most(conditions, input) >= usd(conditions, input))
      }),
    )
  })
})

describe('the price of an image', () => {
  const price = priced({
    image: 0.04,
    variants: [
      { when: { quality: 'hd' }, image: 0.08 },
      { when: { quality: 'hd', size: '1792x1024' }, image: 0.12 },
      { when: { size: '256x256' }, image: 0.01 },
    ],
  })
  const usd = (conditions: object) => cost(priceAt(price, conditions), used({ images: 1 })) / 1e9

  it('is that of the variant that matches best, else the standard one', () => {
    assert.equal(usd({}), 0.04)
    assert.equal(usd({ quality: 'standard', size: '1024x1024' }), 0.04)
    assert.equal(usd({ quality: 'hd' }), 0.08)
    assert.equal(usd({ quality: 'hd', size: '1792x1024' }), 0.12)
    assert.equal(usd({ quality: 'standard', size: '256x256' }), 0.01)
  })

  it('is held at the most expensive option that the request leaves open', () => {
    const most = (conditions: object) =>
      Math.max(
        ...possiblePrices(price, conditions).map(each =>
          bound(each, { inputTokens: 0, outputTokens: 0, images: 1 }),
        ),
      ) / 1e9
    assert.equal(most({}), 0.12)
    assert.equal(most({ size: '1024x1024' }), 0.08)
    assert.equal(most({ quality: 'standard' }), 0.04)
    const choice = fc.record(
      { quality: fc.constantFrom('hd', 'standard'), size: fc.constantFrom('256x256', '1792x1024', '1x1') },
      { requiredKeys: [] },
    )
    fc.assert(
      fc.property(choice, choice, (requestedConditions, reportedConditions) => {
        assert.ok(most(requestedConditions) >= usd({ ...reportedConditions, ...requestedConditions }))
      }),
    )
  })
})
