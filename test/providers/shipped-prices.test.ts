import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { describe, it } from 'node:test'
import { waitForUpdate } from '@pydantic/genai-prices'
import { priceAt } from '../../src/domain/cost.ts'
import { nanosFromPicos, usdText } from '../../src/domain/money.ts'
import {
  type Price,
  type PriceFields,
  presentedPrice,
  priceFields,
  readPrice,
} from '../../src/domain/price.ts'
import type { RateName, Rates } from '../../src/domain/rate.ts'
import { shippedModels, shippedOwner, shippedPrice } from '../../src/providers/prices/shipped.ts'
import { TOKEN_SOURCES } from '../../src/providers/prices/token-sources.ts'
import { vendors } from '../../src/providers/prices/vendors.ts'

const priceOf = (model: string, at?: string): Price => {
  const price = shippedPrice(model, at === undefined ? undefined : Date.parse(at))
  assert.ok(price, `${model} has no price`)
  return price
}
const fieldsOf = (model: string, at?: string): PriceFields => priceFields(priceOf(model, at))

/** Exact dollars of a request with this usage of each rate. */
const costOf = (rates: Rates, counts: { readonly [name in RateName]?: number }): string => {
  let picos = 0
  for (const [name, count] of Object.entries(counts)) picos += count * (rates[name as RateName] ?? Number.NaN)
  return usdText(nanosFromPicos(picos))
}

describe('models with a shipped price (docs/reference/money.md: Shipped prices)', () => {
  const prices: Record<string, PriceFields> = {
    'tts-1': { per_character: 0.000015 },
    'tts-1-hd': { per_character: 0.00003 },
    'whisper-1': { per_second: 0.0001 },
    'text-moderation-stable': { input: 0 },
    'text-moderation-latest': { input: 0 },
    'rerank-english-v2.0': { per_search: 0.002 },
    'rerank-multilingual-v2.0': { per_search: 0.002 },
    'bge-reranker-v2-m3': { per_search: 0 },
  }
  for (const [model, fields] of Object.entries(prices)) {
    it(`include ${model} at its list price`, () => assert.deepEqual(fieldsOf(model), fields))
  }
})

describe('well-known models', () => {
  const spots: [string, PriceFields][] = [
    ['gpt-4o-mini', { input: 0.15, output: 0.6, cached_input: 0.075 }],
    ['gpt-4.1', { input: 2, output: 8, cached_input: 0.5 }],
    ['gpt-4o-audio-preview', { input: 2.5, output: 10, audio_input: 40, audio_output: 80 }],
    ['gpt-4o-audio-preview-2024-10-01', { input: 2.5, output: 10, audio_input: 100, audio_output: 200 }],
    ['gpt-4o-mini-audio-preview', { input: 0.15, output: 0.6, audio_input: 10, audio_output: 20 }],
    ['openai/gpt-5-image', { input: 10, output: 10, image_output: 40 }],
    ['claude-sonnet-4-5', { input: 3, output: 15, cached_input: 0.3, cache_write: 3.75, cache_write_1h: 6 }],
    ['claude-3-5-haiku-20241022', { input: 0.8, output: 4, cache_write_1h: 1.6 }],
    ['gemini-2.5-flash', { input: 0.3, output: 2.5, audio_input: 1 }],
    ['mistral-large-2512', { input: 0.5, output: 1.5 }],
    ['grok-3-mini', { input: 0.3, output: 0.5, cached_input: 0.075 }],
    ['command-r7b-12-2024', { input: 0.0375, output: 0.15 }],
    ['kimi-k2-thinking', { input: 0.6, output: 2.5 }],
    ['glm-5.2', { input: 1.4, output: 4.4 }],
    ['text-embedding-3-small', { input: 0.02 }],
    ['llama-3.3-70b-versatile', { input: 0.59, output: 0.79 }],
    ['gpt-image-1', { input: 5, image_input: 10, output: 40 }],
    ['gpt-4o-transcribe', { input: 2.5, audio_input: 6, output: 10, per_second: 0.0001 }],
    ['omni-moderation-latest', { input: 0 }],
    ['rerank-v3.5', { per_search: 0.002 }],
    ['nova-2', { per_minute: 0.0043 }],
    ['eleven_multilingual_v2', { per_character: 0.00018 }],
    ['flux-pro-1.1', { image: 0.04 }],
    ['sora-2', { per_second: 0.1 }],
  ]
  for (const [model, expected] of spots) {
    it(`cost their vendor’s list price: ${model}`, () =>
      assert.partialDeepStrictEqual(fieldsOf(model), expected))
  }

  it('cost more above the prompt size that the vendor names', () => {
    const { tiers } = fieldsOf('gemini-2.5-pro')
    assert.deepEqual(tiers, [{ input_over: 200_000, input: 2.5, output: 15, cached_input: 0.25 }])
    // "From 272,000 tokens on" is "above 271,999".
    assert.equal(fieldsOf('gpt-5.4').tiers?.[0]?.input_over, 271_999)
  })

  it('cost by quality, size or resolution if their vendor does so', () => {
    assert.deepEqual(fieldsOf('grok-imagine-image-2.0').variants, [
      { when: { quality: 'low', size: '1024x1024' }, image: 0.04 },
    ])
    assert.deepEqual(fieldsOf('veo-3.1-fast-generate-001'), {
      per_second: 0.1,
      variants: [
        { when: { resolution: '1080p' }, per_second: 0.12 },
        { when: { resolution: '4k' }, per_second: 0.3 },
      ],
    })
  })

  it('charged by time of day have the price of the most expensive hour, and a note about it', () => {
    const price = fieldsOf('deepseek-chat')
    assert.deepEqual([price.input, price.output], [0.27, 1.1])
    assert.match(price.unit_note ?? '', /most expensive hour/)
  })

  it('whose price changes on a date cost the new price from that date on', () => {
    assert.equal(fieldsOf('gemini-3.8-flash', '2026-12-31T23:59:59.999Z').input, 0.75)
    assert.equal(fieldsOf('gemini-3.8-flash', '2027-01-01T00:00:00Z').input, 1.5)
    assert.equal(fieldsOf('o3', '2025-06-09').input, 10)
    assert.equal(fieldsOf('o3', '2026-11-15').input, 2)
  })

  it('are labelled with their vendor, not with a reseller', () => {
    const owners = [
      'gpt-4o',
      'claude-opus-4-6',
      'gemini-2.5-pro',
      'grok-4.5',
      'whisper-1',
      'claude-3-5-haiku',
    ]
    assert.deepEqual(owners.map(shippedOwner), [
      'openai',
      'anthropic',
      'google',
      'xai',
      'openai',
      'anthropic',
    ])
    assert.equal(shippedOwner('gpt-4o-2024-08-06'), 'openai')
    assert.equal(shippedOwner('nobody-made-this'), undefined)
  })

  it('cost in total what the vendors charged for real responses', () => {
    const cached = priceOf('claude-sonnet-4-5').rates
    assert.equal(costOf(cached, { input: 17, cache_write_1h: 2056, output: 100 }), '0.013887')
    const reasoned = priceOf('grok-3-mini').rates
    assert.equal(costOf(reasoned, { input: 10, cached_input: 2, output: 229 }), '0.00011765')
    assert.equal(costOf(priceOf('tts-1').rates, { per_character: 4096 }), '0.06144')
    assert.equal(costOf(priceOf('gpt-4o-mini-tts').rates, { output: 1000 }), '0.012')
    assert.equal(costOf(priceOf('whisper-1').rates, { per_second: 4 }), '0.0004')
    assert.equal(costOf(priceOf('sora-2').rates, { per_second: 8 }), '0.8')
    assert.equal(costOf(priceOf('veo-3.1-lite-generate-preview').rates, { per_second: 4 }), '0.2')
    assert.equal(costOf(priceOf('rerank-v3.5').rates, { per_search: 1 }), '0.002')
    assert.equal(costOf(priceOf('text-embedding-3-small').rates, { input: 1 }), '0.00000002')
  })
})

describe('tools that the provider runs', () => {
  const toolsOf = (model: string) => presentedPrice(priceOf(model)).tools
  const searchOf = (model: string, web_search: string) =>
    priceAt(priceOf(model), { web_search }).rates.per_search

  it('have the list prices of their vendors', () => {
    const openai = { web_search: 0.01, file_search: 0.0025, code_interpreter: 0.03, image_generation: 0.25 }
    for (const model of ['gpt-5', 'gpt-4.1', 'o3', 'gpt-4o-2024-11-20'])
      assert.deepEqual(toolsOf(model), openai)
    assert.deepEqual(toolsOf('claude-sonnet-4-5'), { web_search: 0.01, code_interpreter: 0.004166666667 })
    assert.deepEqual(toolsOf('gemini-2.5-flash'), { web_search: 0.035, file_search: 0, code_interpreter: 0 })
    assert.equal(toolsOf('gemini-3-pro-preview')?.web_search, 0.014)
    assert.deepEqual(toolsOf('grok-4'), { web_search: 0.005, file_search: 0.01, code_interpreter: 0.005 })
    assert.equal(toolsOf('gpt-4o-search-preview')?.web_search, 0.025)
    for (const model of ['rerank-v3.5', 'gpt-image-1', 'text-embedding-3-small', 'tts-1'])
      assert.equal(toolsOf(model), undefined, model)
  })

  it('cost more if the request selects a more expensive search', () => {
    assert.equal(searchOf('gpt-4o', 'preview'), 25_000_000_000)
    assert.equal(searchOf('gpt-5', 'preview'), 10_000_000_000)
    assert.deepEqual(
      ['low', 'medium', 'high', 'pro-high'].map(size => searchOf('sonar', size)),
      [5_000_000_000, 8_000_000_000, 12_000_000_000, 22_000_000_000],
    )
    assert.equal(searchOf('sonar-pro', 'low'), 6_000_000_000)
  })
})

describe('a model of a reseller', () => {
  it('has the rates of its maker that the reseller does not list, if the others are the same', () => {
    const image = fieldsOf('google/gemini-2.5-flash-image')
    assert.deepEqual([image.output, image.image_output], [2.5, 30])
    assert.deepEqual(image.cached_input, 0.03)
    const audio = fieldsOf('openai/gpt-audio')
    assert.deepEqual([audio.audio_input, audio.audio_output], [32, 64])
    assert.equal(fieldsOf('google/gemini-2.5-flash').audio_input, 1)
    assert.equal(fieldsOf('anthropic/claude-sonnet-4').cache_write_1h, 6)
    assert.equal(fieldsOf('anthropic/claude-3.7-sonnet:beta').cache_write, 3.75)
    const { tiers, cached_input } = fieldsOf('google/gemini-2.5-pro')
    assert.deepEqual(tiers, [{ input_over: 200_000, input: 2.5, output: 15 }])
    assert.equal(cached_input, 0.31)
  })

  it('has none of them if its prices are its own', () => {
    assert.notEqual(fieldsOf('minimax/minimax-m2').input, fieldsOf('minimax-m2').input)
    assert.equal(fieldsOf('minimax/minimax-m2').cache_write, undefined)
  })
})

describe('a name', () => {
  it('matches with a date suffix', () => {
    for (const name of ['gpt-4o-mini-2031-01-31', 'gpt-4o-mini-20310131', 'gpt-4o-mini@20310131']) {
      assert.equal(shippedPrice(name), shippedPrice('gpt-4o-mini'), name)
    }
  })

  it('with a date and its own price keeps that price', () => {
    assert.equal(fieldsOf('gpt-4o-2024-05-13').input, 5)
    assert.equal(fieldsOf('gpt-4o-2024-08-06').input, 2.5)
  })

  it('never matches by its prefix, another case or something like a date', () => {
    const unknown = ['gpt-4o-mini-foo', 'gpt-4o-min', 'GPT-4O-MINI', 'gpt-4o-mini-', '', 'sim-small']
    const noDates = [
      '0613',
      '2603',
      '260128',
      '2024-13-01',
      '2024-08-32',
      '2024-0806',
      '1024-08-06',
      '2024-08',
    ]
    for (const name of [...unknown, ...noDates.map(date => `gpt-4o-mini-${date}`)]) {
      assert.equal(shippedPrice(name), undefined, name)
    }
  })
})

describe('every shipped price', () => {
  it('follows the rules of prices and is returned by the API unchanged', () => {
    const models = shippedModels()
    assert.ok(models.length > 1500, `only ${models.length} models`)
    for (const model of models) {
      const price = priceOf(model)
      assert.deepStrictEqual(readPrice(priceFields(price)), { price }, model)
    }
  })

  it('has per_call alone or not at all', () => {
    for (const model of shippedModels()) {
      const names = Object.keys(priceOf(model).rates)
      assert.ok(!names.includes('per_call') || names.length === 1, model)
    }
  })

  it('charges an image either by its tokens or per image', () => {
    for (const model of shippedModels()) {
      const { image, output, image_output } = priceOf(model).rates
      assert.ok(image === undefined || (output ?? image_output) === undefined, model)
    }
  })

  it('is in one vendor file only', () => {
    const names = vendors.flatMap(vendor => Object.keys(vendor.models))
    assert.deepEqual(names, [...new Set(names)])
  })

  it('that is defined beside the price package is found', () => {
    for (const { owner, also = {} } of TOKEN_SOURCES) {
      for (const name of Object.keys(also)) assert.equal(shippedOwner(name), owner, name)
    }
  })
})

describe('the price package', () => {
  const resells = "resells other makers' models under their names, at prices that hold only there"
  const leftOut: Record<string, string> = {
    arcee: resells,
    avian: resells,
    baseten: resells,
    cursor: 'a subscription, not an API a channel could use',
    doubleword: resells,
    'github-copilot': 'a subscription, not an API a channel could use',
    modal: resells,
    quicksilverpro: resells,
    typesafe: 'no provider of ours offers it',
  }
  const isLeftOut = (id: string) => id in leftOut || id.startsWith('huggingface_') // One router, many hosts, one name.

  it('has no provider that is neither used nor excluded on purpose', async () => {
    const ids = ((await waitForUpdate()) ?? []).map(provider => provider.id)
    const used = new Set(TOKEN_SOURCES.map(source => source.id))
    assert.deepEqual(
      ids.filter(id => !used.has(id) && !isLeftOut(id)),
      [],
    )
    assert.deepEqual(
      Object.keys(leftOut).filter(id => !ids.includes(id)),
      [],
    )
  })
})

// The list of facts for the project's own entries is kept beside the project, not in it.
const FACTS = new URL('../../../shared/reference/media-prices.tsv', import.meta.url)

type Fact = {
  readonly vendor: string
  readonly model: string
  readonly variant: string
  readonly unit: string
  readonly usd: number
}

function readFacts(): Fact[] {
  const [, ...lines] = readFileSync(FACTS, 'utf8').trimEnd().split('\n')
  return lines.map(line => {
    const [, vendor = '', model = '', variant = '', unit = '', usd = ''] = line.split('\t')
    // A hosted model has its maker's name before its own.
    if (variant === 'canopylabs')
      return { vendor, model: `${variant}/${model}`, variant: '', unit, usd: Number(usd) }
    return { vendor, model, variant, unit, usd: Number(usd) }
  })
}

const extra = 'an extra of streamed transcription, not a model'
const endpoint = 'an endpoint for editing, not the name of a model'
const LEAVE_OUTS: Record<string, string> = {
  'deepgram detect_entities': extra,
  'deepgram diarize': extra,
  'deepgram keyterm': extra,
  'deepgram redact': extra,
  'deepgram nova-3-multilingual': 'listed for streamed transcription only, which is not offered',
  'openai sora-2-pro-high-res': 'sizes of sora-2-pro, priced as its variants',
  'runwayml eleven_multilingual_v2': 'the name is ElevenLabs’ own, whose price counts',
  'stability conservative': endpoint,
  'stability creative': endpoint,
  'stability erase': endpoint,
  'stability fast': endpoint,
  'stability inpaint': endpoint,
  'stability outpaint': endpoint,
  'stability remove-background': endpoint,
  'stability replace-background-and-relight': endpoint,
  'stability search-and-recolor': endpoint,
  'stability search-and-replace': endpoint,
  'stability sketch': endpoint,
  'stability structure': endpoint,
  'stability style': endpoint,
  'stability style-transfer': endpoint,
}

const audioIn = 'audio costs more than text, says the price package and the vendor'
const DIFFERENCES: Record<string, string> = {
  'gpt-4o-transcribe 1M audio tokens in': audioIn,
  'gpt-4o-transcribe-diarize 1M audio tokens in': audioIn,
  'gpt-4o-mini-transcribe 1M audio tokens in': audioIn,
  'gpt-4o-mini-tts 1M tokens out': 'speech puts out audio tokens only',
}

/**
 * What the shipped price says about a fact, in the fact's own unit; undefined if the price uses another unit.
 */
function statedUsd(price: Price, { variant, unit }: Fact): number | undefined {
  const { variants = [], ...base } = priceFields(price)
  const variantWords = variant.split(' ')
  const fitting = variants.find(({ when }) =>
    Object.values(when).every(condition => variantWords.includes(condition)),
  )
  const fields = { ...base, ...fitting }
  const perSecond =
    fields.per_second ?? (fields.per_minute === undefined ? undefined : fields.per_minute / 60)
  const stated: Record<string, number | undefined> = {
    '1M tokens in': fields.input,
    '1M tokens out': fields.output,
    '1M cached tokens in': fields.cached_input,
    '1M audio tokens in': fields.audio_input,
    '1M audio tokens out': fields.audio_output ?? fields.output,
    '1M image tokens in': fields.image_input,
    '1M image tokens out': fields.image_output ?? fields.output,
    'image in': fields.image,
    'image out': fields.image,
    'second in': perSecond,
    'second out': perSecond,
    '1M characters': fields.per_character === undefined ? undefined : fields.per_character * 1e6,
    search: fields.per_search,
  }
  return stated[unit]
}

const isNear = (a: number, b: number) => Math.abs(a - b) <= Math.max(a, b) * 0.0005

describe('the project’s own entries', () => {
  it('cover every model of the list of facts, at its price', t => {
    if (!existsSync(FACTS)) return t.skip(`not compared: ${FACTS.pathname} is not on this machine`)
    const byModel = Map.groupBy(readFacts(), fact => `${fact.vendor} ${fact.model}`)
    assert.ok(byModel.size > 200, `only ${byModel.size} models in the list`)
    for (const [key, facts] of byModel) {
      if (key in LEAVE_OUTS) continue
      const model = facts[0]?.model ?? ''
      const price = priceOf(model)
      const isFree = facts.every(fact => fact.usd === 0)
      let compared = 0
      for (const fact of facts) {
        const stated = statedUsd(price, fact)
        // A zero beside other figures means "not charged by this" in the list.
        if (stated === undefined || (fact.usd === 0 && !isFree) || fact.variant === 'streaming') continue
        compared++
        const undated = `${model.replace(/-\d{4}-\d\d-\d\d$/, '')} ${fact.unit}`
        assert.ok(
          isNear(stated, fact.usd) || undated in DIFFERENCES,
          `${key} ${fact.variant} ${fact.unit}: ${stated} is not ${fact.usd}`,
        )
      }
      assert.ok(compared > 0, `${key} is charged by nothing that the list states`)
    }
    assert.deepEqual(
      Object.keys(LEAVE_OUTS).filter(key => !byModel.has(key)),
      [],
    )
  })
})
