import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import {
  MAX_UNITS,
  NANOS_PER_UNIT,
  nanosFromPicos,
  nanosOf,
  safe,
  scaled,
  UNITS_PER_USD,
  unitsLeft,
  unitsUsed,
  usdText,
} from '../../src/domain/money.ts'
import {
  CONDITIONS,
  type Price,
  type PriceFault,
  type PriceInput,
  presentedPrice,
  priceFields,
  quotaType,
  readPrice,
} from '../../src/domain/price.ts'
import { MAX_RATE_PICOS, type RateName, TOKEN_RATES, TOOLS_ALONE, UNIT_RATES } from '../../src/domain/rate.ts'
import { ratios } from '../../src/domain/ratio.ts'
import { fc } from '../support/properties.ts'

const anySafe = fc.integer({ min: Number.MIN_SAFE_INTEGER, max: Number.MAX_SAFE_INTEGER })
const floor = (a: bigint, b: bigint) => a / b - (a % b < 0n ? 1n : 0n)
const ceil = (a: bigint, b: bigint) => -floor(-a, b)

describe('quota units', () => {
  it('are two thousand nanodollars each, half a million to the dollar', () => {
    assert.equal(nanosOf(UNITS_PER_USD), 1_000_000_000)
    assert.equal(nanosOf(1), NANOS_PER_UNIT)
    assert.equal(usdText(nanosOf(UNITS_PER_USD)), '1')
  })

  it('stay below 2^53 nanodollars at the largest quota', () => {
    assert.ok(Number.isSafeInteger(nanosOf(MAX_UNITS)))
  })

  it('remaining and used always add up to the granted quota', () => {
    fc.assert(
      fc.property(fc.nat(MAX_UNITS), fc.double({ min: 0, max: 1, noNaN: true }), (units, share) => {
        const granted = nanosOf(units)
        const used = Math.min(granted, Math.floor(granted * share))
        assert.equal(unitsLeft(granted - used) + unitsUsed(used), units)
      }),
    )
  })

  it('are rounded down when remaining and up when used, to the last nanodollar', () => {
    const last = nanosOf(MAX_UNITS) - 1
    assert.equal(unitsLeft(last), MAX_UNITS - 1)
    assert.equal(unitsUsed(last), MAX_UNITS)
    assert.equal(unitsUsed(1), 1)
    assert.equal(unitsLeft(1_999), 0)
    assert.equal(unitsUsed(0), 0)
    fc.assert(
      fc.property(anySafe, nanos => {
        assert.equal(unitsLeft(nanos), Number(floor(BigInt(nanos), 2000n)))
        assert.equal(unitsUsed(nanos), Number(ceil(BigInt(nanos), 2000n)))
      }),
    )
  })
})

describe('a cost', () => {
  it('is rounded up to the nanodollar', () => {
    assert.equal(nanosFromPicos(0), 0)
    assert.equal(nanosFromPicos(1), 1)
    assert.equal(nanosFromPicos(1_000), 1)
    assert.equal(nanosFromPicos(1_001), 2)
    fc.assert(
      fc.property(anySafe, picos => {
        assert.equal(nanosFromPicos(picos), Number(ceil(BigInt(picos), 1000n)))
      }),
    )
  })

  it('reads as an exact decimal', () => {
    assert.equal(usdText(0), '0')
    assert.equal(usdText(1), '0.000000001')
    assert.equal(usdText(13_887_000), '0.013887')
    assert.equal(usdText(1_500_000_000), '1.5')
    assert.equal(usdText(-250_000_000), '-0.25')
    assert.equal(usdText(9_007_199_254_740_991), '9007199.254740991')
    fc.assert(
      fc.property(anySafe, nanos => {
        assert.equal(scaled(usdText(nanos).replace('-', ''), 9), Math.abs(nanos))
        assert.equal(usdText(nanos).startsWith('-'), nanos < 0)
      }),
    )
  })

  it('that is not a safe integer is an error in every conversion', () => {
    for (const wrong of [2 ** 53, 0.5, Number.NaN, Number.POSITIVE_INFINITY]) {
      for (const use of [safe, unitsLeft, unitsUsed, nanosOf, nanosFromPicos, usdText]) {
        assert.throws(() => use(wrong), RangeError, `${use.name}(${wrong})`)
      }
    }
    assert.throws(() => nanosOf(5_000_000_000_000), RangeError)
  })
})

describe('a decimal parsed as an integer', () => {
  it('is exact if a product of floats is not', () => {
    assert.notEqual(0.57 * 100, 57)
    assert.equal(scaled(0.57, 2), 57)
    assert.equal(scaled(0.07, 12), 70_000_000_000)
    assert.equal(scaled(2e-8, 12), 20_000)
    assert.equal(scaled(1e-12, 12), 1)
    assert.equal(scaled('1.5E3', 0), 1500)
    assert.equal(scaled('0.000', 6), 0)
    assert.equal(scaled(1e15, 0), 1e15)
    assert.equal(scaled('9007199254740991', 0), Number.MAX_SAFE_INTEGER)
  })

  it('is refused if it has too many decimals, is too large, or is not a decimal', () => {
    const refused = [0.1 + 0.2, 1e-13, 1e15, '9007.199254740992', '1e999999999999', '1e-999999999999']
    const noDecimal = [Number.NaN, Number.POSITIVE_INFINITY, '', ' 1', '1.', '.5', '+1', '0x1', '1,5', '1_0']
    for (const value of [...refused, ...noDecimal]) assert.equal(scaled(value, 12), undefined, String(value))
  })

  it('is never negative', () => {
    assert.equal(scaled(-0.5, 1), undefined)
    assert.ok(Object.is(scaled(-0, 3), 0))
    assert.ok(Object.is(scaled('-0.0', 3), 0))
  })

  it('agrees with arithmetic on big integers in every notation', () => {
    const anyDecimal = fc.record({
      integer: fc.stringMatching(/^\d{1,18}$/),
      fraction: fc.stringMatching(/^\d{0,18}$/),
      exponent: fc.integer({ min: -25, max: 25 }),
      digits: fc.nat(12),
    })
    fc.assert(
      fc.property(anyDecimal, ({ integer, fraction, exponent, digits }) => {
        const text = `${integer}${fraction && `.${fraction}`}e${exponent}`
        assert.equal(scaled(text, digits), byBigInt(), text)

        function byBigInt(): number | undefined {
          const mantissa = BigInt(integer + fraction)
          const shift = exponent - fraction.length + digits
          const power = 10n ** BigInt(Math.abs(shift))
          if (shift < 0 && mantissa % power !== 0n) return undefined
          const exact = Number(shift < 0 ? mantissa / power : mantissa * power)
          return Number.isSafeInteger(exact) ? exact : undefined
        }
      }),
      { numRuns: 2000 },
    )
  })

  it('is restored from any number of fifteen digits', () => {
    fc.assert(
      fc.property(fc.nat(999_999_999_999_999), fc.nat(12), (amount, digits) => {
        assert.equal(scaled(amount / 10 ** digits, digits), amount)
      }),
    )
  })
})

const read = (input: PriceInput): Price => {
  const reading = readPrice(input)
  assert.ok('price' in reading, JSON.stringify(reading))
  return reading.price
}

const faultsOf = (input: PriceInput): readonly PriceFault[] => {
  const reading = readPrice(input)
  assert.ok('faults' in reading, JSON.stringify(reading))
  return reading.faults
}
const faultyPaths = (input: PriceInput): string[] => faultsOf(input).map(fault => fault.path)

describe('a price in an API request', () => {
  it('becomes picodollars per token or unit', () => {
    const price = read({ input: 0.15, output: 0.6, cached_input: 0.075, per_search: 0.01 })
    assert.deepEqual(price, {
      rates: { input: 150_000, output: 600_000, cached_input: 75_000, per_search: 10_000_000_000 },
    })
    assert.deepEqual(read({ per_character: 0.000015 }).rates, { per_character: 15_000_000 })
  })

  it('has tiers, variants, the longest output and a note', () => {
    const price = read({
      input: 1.25,
      tiers: [{ input_over: 200_000, input: 2.5 }],
      variants: [{ when: { quality: 'low', size: '1024x1024' }, image: 0.04 }],
      max_output_tokens: 65_536,
      unit_note: 'a note',
    })
    assert.deepEqual(price, {
      rates: { input: 1_250_000 },
      tiers: [{ inputOver: 200_000, rates: { input: 2_500_000 } }],
      variants: [{ when: { quality: 'low', size: '1024x1024' }, rates: { image: 40_000_000_000 } }],
      maxOutputTokens: 65_536,
      unitNote: 'a note',
    })
  })

  it('keeps an explicit zero, and treats null and empty lists as absent', () => {
    const input = {
      input: 0,
      output: null,
      tiers: [],
      variants: null,
      max_output_tokens: null,
      unit_note: '',
    }
    assert.deepEqual(read(input), { rates: { input: 0 } })
  })

  it('reads per_image as image', () => {
    assert.deepEqual(read({ per_image: 0.04 }).rates, { image: 40_000_000_000 })
    assert.deepEqual(read({ image: null, per_image: 0.04 }).rates, { image: 40_000_000_000 })
    assert.deepEqual(read({ image: 0.04, per_image: 0.04 }).rates, { image: 40_000_000_000 })
    assert.deepEqual(faultyPaths({ image: 0.04, per_image: 0.05 }), ['per_image'])
  })

  it('is refused if an amount is not an exact picodollar, is negative or exceeds the highest rate', () => {
    assert.deepEqual(faultsOf({ input: 0.1 + 0.2 }), [{ path: 'input', message: 'has more than 6 decimals' }])
    assert.deepEqual(faultyPaths({ input: 0.0000001, per_second: 1e-13 }), ['input', 'per_second'])
    assert.deepEqual(faultyPaths({ input: -1, output: Number.NaN }), ['input', 'output'])
    assert.equal(read({ image: 1000 }).rates.image, MAX_RATE_PICOS)
    assert.deepEqual(faultyPaths({ image: 1000.01, input: 1.1e9 }), ['input', 'image'])
  })

  it('needs a price that applies to every request', () => {
    assert.deepEqual(faultyPaths({}), [''])
    assert.deepEqual(faultyPaths({ input: null, max_output_tokens: 5 }), [''])
    assert.deepEqual(faultyPaths({ variants: [{ when: { size: '1x1' }, image: 1 }] }), [''])
  })

  it('is refused with per_call beside another price, also in a variant', () => {
    assert.deepEqual(faultyPaths({ per_call: 1, input: 1 }), ['per_call'])
    assert.deepEqual(faultyPaths({ per_call: 0, image: 0 }), ['per_call'])
    assert.deepEqual(faultyPaths({ image: 1, variants: [{ when: { size: 'a' }, per_call: 1 }] }), [
      'variants.0.per_call',
    ])
    assert.equal(read({ per_call: 1, variants: [{ when: { size: 'a' }, per_call: 2 }] }).variants?.length, 1)
  })

  it('is refused if it would charge a second twice', () => {
    assert.deepEqual(faultyPaths({ per_second: 1, per_minute: 60 }), ['per_minute'])
  })

  it('is refused with tiers that do not ascend or do not price tokens', () => {
    const tier = (input_over: number) => ({ input_over, input: 2 })
    assert.deepEqual(faultyPaths({ input: 1, tiers: [tier(5), tier(5)] }), ['tiers.1.input_over'])
    assert.deepEqual(faultyPaths({ input: 1, tiers: [tier(-1), tier(1.5)] }), [
      'tiers.0.input_over',
      'tiers.1.input_over',
    ])
    assert.deepEqual(faultyPaths({ input: 1, tiers: [{ input_over: 5, image: 2 }] }), ['tiers.0.image'])
    assert.deepEqual(faultyPaths({ input: 1, tiers: [{ input_over: 5 }] }), ['tiers.0'])
    assert.deepEqual(faultyPaths({ image: 1, tiers: [tier(5)] }), ['tiers'])
  })

  it('is refused with variants that never apply or apply twice', () => {
    const variant = { when: { size: 'a' }, image: 2 }
    assert.deepEqual(faultyPaths({ image: 1, variants: [{ when: {}, image: 2 }] }), ['variants.0.when'])
    assert.deepEqual(faultyPaths({ image: 1, variants: [{ when: { size: '' }, image: 2 }] }), [
      'variants.0.when.size',
    ])
    assert.deepEqual(faultyPaths({ image: 1, variants: [variant, variant] }), ['variants.1.when'])
    assert.deepEqual(faultyPaths({ image: 1, variants: [{ when: { size: 'a' } }] }), ['variants.0'])
  })

  it('accepts tool prices beside tokens or a call, with two names for that of a web search', () => {
    const rates = { input: 1_000_000, per_search: 10_000_000_000, code_interpreter: 30_000_000_000 }
    const code_interpreter = 0.03
    assert.deepEqual(read({ input: 1, tools: { web_search: 0.01, code_interpreter } }), { rates })
    assert.deepEqual(read({ input: 1, per_search: 0.01, tools: { code_interpreter } }), { rates })
    assert.deepEqual(read({ input: 1, per_search: 0.01, tools: { web_search: 0.01, code_interpreter } }), {
      rates,
    })
    assert.deepEqual(read({ per_call: 1, tools: { file_search: 0 } }).rates.file_search, 0)
    assert.deepEqual(faultyPaths({ input: 1, per_search: 0.01, tools: { web_search: 0.02 } }), ['per_search'])
    assert.deepEqual(faultyPaths({ input: 1, tools: { image_generation: -1 } }), ['tools.image_generation'])
    const tiers = [{ input_over: 1, input: 2, tools: { file_search: 1 } }]
    assert.deepEqual(faultyPaths({ input: 1, tiers }), ['tiers.0.tools.file_search'])
  })

  it('is refused with a longest output that is not a positive integer', () => {
    for (const max_output_tokens of [0, -1, 1.5]) {
      assert.deepEqual(faultyPaths({ input: 1, max_output_tokens }), ['max_output_tokens'])
    }
  })
})

const ratesOf = (names: readonly RateName[]) =>
  fc.record(
    Object.fromEntries(names.map(name => [name, fc.oneof(fc.nat(10_000_000), fc.nat(MAX_RATE_PICOS))])),
    { requiredKeys: [], noNullPrototype: true },
  )
const alone: readonly RateName[] = ['per_call', 'per_minute']
const together = [...TOKEN_RATES, ...UNIT_RATES, ...TOOLS_ALONE].filter(name => !alone.includes(name))
const stated = (rates: object) => Object.keys(rates).length > 0

const anyWhen = fc.record(
  Object.fromEntries(
    CONDITIONS.map(name => [name, fc.string({ minLength: 1, maxLength: 3 }).map(text => text.toLowerCase())]),
  ),
  { requiredKeys: [], noNullPrototype: true },
)

const anyPrice: fc.Arbitrary<Price> = fc
  .record({
    input: fc.nat(MAX_RATE_PICOS),
    rates: ratesOf(together),
    tiers: fc.uniqueArray(
      fc.record(
        { inputOver: fc.nat(2_000_000), rates: ratesOf(TOKEN_RATES).filter(stated) },
        { noNullPrototype: true },
      ),
      { selector: tier => tier.inputOver, maxLength: 3 },
    ),
    variants: fc.uniqueArray(
      fc.record(
        { when: anyWhen.filter(stated), rates: ratesOf(together).filter(stated) },
        { noNullPrototype: true },
      ),
      { selector: variant => JSON.stringify(CONDITIONS.map(name => variant.when[name])), maxLength: 3 },
    ),
    maxOutputTokens: fc.option(fc.integer({ min: 1, max: 1_000_000 })),
  })
  .map(({ input, rates, tiers, variants, maxOutputTokens }) => ({
    rates: { ...rates, input },
    ...(tiers.length > 0 && { tiers: tiers.toSorted((a, b) => a.inputOver - b.inputOver) }),
    ...(variants.length > 0 && { variants }),
    ...(maxOutputTokens !== null && { maxOutputTokens }),
  }))

describe('a price in an API response', () => {
  it('is in dollars per million tokens or per unit', () => {
    const input = { input: 0.15, per_search: 0.01, tiers: [{ input_over: 200_000, input: 0.3 }] }
    assert.deepEqual(priceFields(read(input)), input)
  })

  it('lists a web search of a chat under tools as well, and not the search unit of a rerank', () => {
    const chat = { input: 1, tools: { web_search: 0.01, file_search: 0.0025 } }
    assert.deepEqual(presentedPrice(read(chat)), { ...chat, per_search: 0.01 })
    const variant = { when: { web_search: 'high' }, per_search: 0.02 }
    const presented = presentedPrice(read({ input: 1, per_search: 0.01, variants: [variant] }))
    assert.deepEqual(presented.variants, [{ ...variant, tools: { web_search: 0.02 } }])
    assert.deepEqual(presentedPrice(read({ per_search: 0.002 })), { per_search: 0.002 })
  })

  it('is parsed back to the same price, through JSON too', () => {
    fc.assert(
      fc.property(anyPrice, price => {
        assert.deepStrictEqual(read(JSON.parse(JSON.stringify(priceFields(price)))), price)
      }),
      { numRuns: 500 },
    )
    for (const name of alone) {
      fc.assert(
        fc.property(fc.nat(MAX_RATE_PICOS), picos => {
          const price = { rates: { [name]: picos } }
          assert.deepStrictEqual(read(priceFields(price)), price)
        }),
      )
    }
  })

  it('has quota type 0 for a price per token and 1 for every other', () => {
    assert.equal(quotaType(read({ input: 0 })), 0)
    assert.equal(quotaType(read({ output: 1, per_second: 1 })), 0)
    for (const name of UNIT_RATES) assert.equal(quotaType(read({ [name]: 1 })), 1, name)
  })
})

describe('the ratios of a price', () => {
  it('are relative to two dollars per million input tokens', () => {
    const price = read({
      input: 2.5,
      output: 10,
      cached_input: 1.25,
      cache_write: 3.125,
      audio_input: 40,
      audio_output: 80,
      image_input: 5,
    })
    assert.deepEqual(ratios(price), {
      model_ratio: 1.25,
      completion_ratio: 4,
      cache_ratio: 0.5,
      create_cache_ratio: 1.25,
      audio_ratio: 16,
      audio_completion_ratio: 2,
      image_ratio: 2,
      model_price: 0,
    })
  })

  it('are 1 for token types without their own price, which cost as much as input', () => {
    const priceRatios = ratios(read({ input: 3, output: 15 }))
    assert.deepEqual(
      [
        priceRatios.cache_ratio,
        priceRatios.create_cache_ratio,
        priceRatios.audio_ratio,
        priceRatios.image_ratio,
        priceRatios.audio_completion_ratio,
      ],
      [1, 1, 1, 1, 5],
    )
    assert.equal(ratios(read({ input: 0.02 })).completion_ratio, 0)
  })

  it('contain the price of one unit for a price without tokens', () => {
    assert.equal(ratios(read({ per_call: 0.3 })).model_price, 0.3)
    assert.equal(ratios(read({ image: 0.04 })).model_price, 0.04)
    assert.equal(ratios(read({ per_character: 0.000015 })).model_price, 0.000015)
    assert.equal(ratios(read({ per_call: 0.3 })).model_ratio, 0)
  })

  it('are finite and not negative for every price', () => {
    fc.assert(
      fc.property(anyPrice, price => {
        for (const rates of [price.rates, { ...price.rates, input: 0 }, { image: 0 }]) {
          for (const [name, value] of Object.entries(ratios({ rates }))) {
            assert.ok(Number.isFinite(value) && value >= 0, `${name} ${value}`)
          }
        }
      }),
    )
  })
})
