import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { JsonObject } from '../../src/domain/json-object.ts'
import { readPrice } from '../../src/domain/price.ts'
import { readConfigChannels, readConfigPrices } from '../../src/manage/import/litellm/config.ts'
import { createImportNotes } from '../../src/manage/import/notes.ts'

const NOW_MS = 1_790_000_000_000

/** A configuration with one entry for each name. */
const configOf = (
  entries: Readonly<Record<string, { params?: JsonObject; info?: JsonObject }>>,
): JsonObject => ({
  model_list: Object.entries(entries).map(([name, { params, info }]) => ({
    model_name: name,
    litellm_params: { model: `openai/${name}`, api_key: 'k', ...params },
    ...(info && { model_info: info }),
  })),
})

const notesFor = () => createImportNotes('litellm', true)

describe('the costs of an entry of LiteLLM (docs/moving/litellm.md)', () => {
  function pricesOf(entries: Parameters<typeof configOf>[0]) {
    const notes = notesFor()
    const prices = new Map(
      readConfigPrices(configOf(entries), notes, NOW_MS).map(({ model, price }) => {
        assert.ok('price' in readPrice(price), JSON.stringify(price))
        return [model, price]
      }),
    )
    return { prices, texts: notes.report().notes.map(({ subject, message }) => `${subject}: ${message}`) }
  }

  it('become rates of tokens of every kind, and tiers by the length of the input', () => {
    const { prices, texts } = pricesOf({
      long: {
        info: {
          input_cost_per_token: 0.00000125,
          output_cost_per_token: '1e-5',
          cache_creation_input_token_cost_above_1hr: 0.0000025,
          output_cost_per_reasoning_token: 0.00002,
          input_cost_per_audio_token: 0.000003,
          output_cost_per_image_token: 0.00003,
          input_cost_per_token_above_200k_tokens: 0.0000025,
          output_cost_per_token_above_200k_tokens: 0.000015,
          input_cost_per_token_above_128k_tokens: 0.000002,
        },
      },
    })
    assert.deepEqual(prices.get('long'), {
      ...{ input: 1.25, output: 10, cache_write_1h: 2.5, reasoning: 20, audio_input: 3, image_output: 30 },
      tiers: [
        { input_over: 128_000, input: 2 },
        { input_over: 200_000, input: 2.5, output: 15 },
      ],
    })
    assert.deepEqual(texts, [])
  })

  it('become rates of images, characters and seconds, exactly', () => {
    const { prices, texts } = pricesOf({
      image: { info: { output_cost_per_image: 0.039 } },
      speech: { params: { input_cost_per_character: 0.000015 } },
      sound: { info: { input_cost_per_second: 1.111e-5, output_cost_per_second: null } },
    })
    assert.deepEqual(
      [...prices.values()],
      [{ image: 0.039 }, { per_character: 0.000015 }, { per_second: 0.00001111 }],
    )
    assert.deepEqual(texts, [])
  })

  it('are reported if a price here does not have them', () => {
    const { prices, texts } = pricesOf({
      both: { info: { input_cost_per_token: 1e-6, output_cost_per_image: 0.04, input_cost_per_query: 0 } },
      priority: { params: { input_cost_per_token_priority: 2e-6, input_cost_per_query: 0.002 } },
    })
    assert.deepEqual([...prices], [['both', { input: 1 }]])
    assert.deepEqual(texts, [
      'price of "both": these costs are not carried over: output_cost_per_image',
      'price of "priority": these costs are not carried over: input_cost_per_token_priority, input_cost_per_query',
    ])
  })
})

describe('the weights of deployments of LiteLLM', () => {
  const weightsOf = (weights: readonly unknown[]) =>
    readConfigChannels(
      configOf(
        Object.fromEntries(
          weights.map((weight, index) => [`m${index}`, { params: { weight, api_key: `k${index}` } }]),
        ),
      ),
      { digest: text => text.padEnd(16, '0'), notes: notesFor() },
    ).map(({ fields }) => fields.weight)

  it('keep their proportions if they are fractions', () => {
    assert.deepEqual(weightsOf([0.9, '0.1', 2, 0.0001]), [900, 100, 2000, 1])
  })

  it('stay as they are if they are whole numbers', () => {
    assert.deepEqual(weightsOf([9, '1', null, -1, 'x']), [9, 1, 0, 0, 0])
  })
})
