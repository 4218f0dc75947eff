import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { countedUsage, EMPTY, totalInput, totalOutput, type Usage } from '../../src/domain/usage.ts'
import { MAX_COUNT, readOpenAiUsage, usageIn } from '../../src/metering/openai-usage.ts'
import { fc } from '../support/properties.ts'

const usage = (counts: Partial<Usage>): Usage => ({ ...EMPTY, calls: 1, ...counts })

describe('usage', () => {
  it('counts every token once: the sums are over all kinds of a direction', () => {
    const all = Object.fromEntries(
      Object.keys(EMPTY).map((name, index) => [name, 2 ** index]),
    ) as unknown as Usage
    assert.equal(totalInput(all) + totalOutput(all), 2 ** 10 - 1)
    assert.equal(totalInput(all), 0b111111)
    assert.equal(totalOutput(all), 0b1111000000)
  })

  it('of a call that the gateway counted itself is one call of plain tokens', () => {
    assert.deepEqual(countedUsage(3, 4), usage({ input: 3, output: 4 }))
  })
})

describe('the usage of a response in the OpenAI format', () => {
  it('has cached and cache-written tokens inside the prompt (recorded)', () => {
    const reportedUsage = {
      prompt_tokens: 1220,
      completion_tokens: 100,
      total_tokens: 1320,
      prompt_tokens_details: { cached_tokens: 0, cache_write_tokens: 1217, audio_tokens: 0 },
      completion_tokens_details: { reasoning_tokens: 100, audio_tokens: 0 },
    }
    assert.deepEqual(readOpenAiUsage(reportedUsage), usage({ input: 3, cacheWrite: 1217, reasoning: 100 }))
  })

  it('has reasoning inside the completion', () => {
    const reportedUsage = {
      prompt_tokens: 9,
      completion_tokens: 12,
      completion_tokens_details: { reasoning_tokens: 7 },
    }
    assert.deepEqual(readOpenAiUsage(reportedUsage), usage({ input: 9, output: 5, reasoning: 7 }))
  })

  it('has reasoning beside the completion if the vendor is known to report it so (recorded)', () => {
    const reportedUsage = {
      prompt_tokens: 12,
      completion_tokens: 1,
      total_tokens: 241,
      prompt_tokens_details: { cached_tokens: 2 },
      completion_tokens_details: { reasoning_tokens: 228 },
    }
    const expected = usage({ input: 10, cachedInput: 2, output: 1, reasoning: 228 })
    assert.deepEqual(readOpenAiUsage(reportedUsage, { reasoningOutside: true }), expected)
    const { total_tokens: _, ...withoutTotal } = reportedUsage
    assert.deepEqual(readOpenAiUsage(withoutTotal, { reasoningOutside: true }), expected)
  })

  it('has reasoning that only the total shows (recorded)', () => {
    const reportedUsage = { prompt_tokens: 35, completion_tokens: 12, total_tokens: 109 }
    assert.deepEqual(
      readOpenAiUsage(reportedUsage, { reasoningOutside: true }),
      usage({ input: 35, output: 12, reasoning: 62 }),
    )
  })

  it('has reasoning once, if such a vendor reports it inside the completion after all', () => {
    const reportedUsage = {
      prompt_tokens: 12,
      completion_tokens: 229,
      total_tokens: 241,
      completion_tokens_details: { reasoning_tokens: 228 },
    }
    assert.deepEqual(
      readOpenAiUsage(reportedUsage, { reasoningOutside: true }),
      usage({ input: 12, output: 1, reasoning: 228 }),
    )
  })

  it('may report cached tokens under other names', () => {
    const expected = usage({ input: 19, cachedInput: 320, output: 83 })
    for (const cached of [
      { prompt_cache_hit_tokens: 320, prompt_cache_miss_tokens: 19 },
      { num_cached_tokens: 320 },
      { cached_tokens: 320 },
    ]) {
      assert.deepEqual(readOpenAiUsage({ prompt_tokens: 339, completion_tokens: 83, ...cached }), expected)
    }
  })

  it('may report tokens written to the cache under another name', () => {
    const details = { cached_tokens: 10, cache_creation_input_tokens: 30 }
    assert.deepEqual(
      readOpenAiUsage({ prompt_tokens: 50, completion_tokens: 1, prompt_tokens_details: details }),
      usage({ input: 10, cachedInput: 10, cacheWrite: 30, output: 1 }),
    )
  })

  it('may be in three places of a response', () => {
    const reportedUsage = { prompt_tokens: 2, completion_tokens: 3, total_tokens: 5 }
    const expected = usage({ input: 2, output: 3 })
    assert.deepEqual(usageIn({ usage: reportedUsage }), expected)
    assert.deepEqual(usageIn({ usage: null, x_groq: { id: 'req', usage: reportedUsage } }), expected)
    assert.deepEqual(usageIn({ choices: [{ index: 0, usage: reportedUsage }] }), expected)
    for (const none of [{}, { usage: null }, { choices: [] }, { choices: [null] }, null, 'usage', []]) {
      assert.equal(usageIn(none), undefined)
    }
  })

  it('has audio and images beside the text (recorded)', () => {
    const reportedUsage = {
      prompt_tokens: 59,
      completion_tokens: 123,
      prompt_tokens_details: { cached_tokens: 0, audio_tokens: 43, text_tokens: 16, image_tokens: 0 },
      completion_tokens_details: { audio_tokens: 100, image_tokens: 20, text_tokens: 3 },
    }
    assert.deepEqual(
      readOpenAiUsage(reportedUsage),
      usage({ input: 16, audioInput: 43, output: 3, audioOutput: 100, imageOutput: 20 }),
    )
  })

  it('counts cached audio as cached, whether or not the vendor reports how much of it was', () => {
    const details = { cached_tokens: 60, audio_tokens: 50, text_tokens: 50 }
    assert.deepEqual(
      readOpenAiUsage({ prompt_tokens: 100, completion_tokens: 0, prompt_tokens_details: details }),
      usage({ cachedInput: 60, audioInput: 40 }),
    )
    const cacheDetails = { ...details, cached_tokens_details: { text_tokens: 30, audio_tokens: 30 } }
    assert.deepEqual(
      readOpenAiUsage({ prompt_tokens: 100, completion_tokens: 0, prompt_tokens_details: cacheDetails }),
      usage({ cachedInput: 60, audioInput: 20, input: 20 }),
    )
  })

  it('of embeddings has no completion, and with some vendors only a total (recorded)', () => {
    assert.deepEqual(readOpenAiUsage({ prompt_tokens: 2, total_tokens: 2 }), usage({ input: 2 }))
    assert.deepEqual(readOpenAiUsage({ total_tokens: 12 }), usage({ input: 12 }))
  })

  it('derives a missing count from the total', () => {
    const expected = usage({ input: 7, output: 3 })
    assert.deepEqual(readOpenAiUsage({ completion_tokens: 3, total_tokens: 10 }), expected)
    assert.deepEqual(
      readOpenAiUsage({ prompt_tokens: 7, completion_tokens: null, total_tokens: 10 }),
      expected,
    )
  })

  it('counts the searches that a model ran', () => {
    const reportedUsage = { prompt_tokens: 1, completion_tokens: 2, num_search_queries: 3 }
    assert.deepEqual(readOpenAiUsage(reportedUsage), usage({ input: 1, output: 2, searches: 3 }))
  })

  it('of zero is zero, and not the same as none', () => {
    assert.deepEqual(
      readOpenAiUsage({ prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 }),
      usage({ input: 0 }),
    )
    assert.deepEqual(readOpenAiUsage({ prompt_tokens: -0, completion_tokens: -0 }), usage({ input: 0 }))
    assert.equal(readOpenAiUsage({}), undefined)
  })

  it('is none if a count is impossible', () => {
    const wrong = [-1, 1.5, 1e18, MAX_COUNT + 1, '7', Number.NaN, Number.POSITIVE_INFINITY, true, [3], {}]
    for (const count of wrong) {
      assert.equal(
        readOpenAiUsage({ prompt_tokens: count, completion_tokens: 1, total_tokens: 2 }),
        undefined,
      )
      assert.equal(
        readOpenAiUsage({ prompt_tokens: 1, completion_tokens: count, total_tokens: 2 }),
        undefined,
      )
    }
  })

  it('is none if it has neither a completion count nor a total', () => {
    assert.equal(readOpenAiUsage({ prompt_tokens: 5 }), undefined)
    assert.equal(readOpenAiUsage({ prompt_tokens: 5, total_tokens: 3 }), undefined)
  })

  it('ignores details that are impossible', () => {
    const details = { cached_tokens: -5, cache_write_tokens: 'many', audio_tokens: 1e18, image_tokens: 0.5 }
    assert.deepEqual(
      readOpenAiUsage({
        prompt_tokens: 8,
        completion_tokens: 2,
        prompt_tokens_details: details,
        completion_tokens_details: 'none',
      }),
      usage({ input: 8, output: 2 }),
    )
  })

  it('never counts details as more than their total (recorded: 11 of 10 tokens were reasoning)', () => {
    const reportedUsage = {
      prompt_tokens: 43,
      completion_tokens: 10,
      prompt_tokens_details: { cached_tokens: 99 },
      completion_tokens_details: { reasoning_tokens: 11 },
    }
    assert.deepEqual(readOpenAiUsage(reportedUsage), usage({ cachedInput: 43, reasoning: 10 }))
  })

  it('reads no inherited member of an object', () => {
    assert.equal(
      readOpenAiUsage(JSON.parse('{"__proto__":{"prompt_tokens":1,"completion_tokens":1}}')),
      undefined,
    )
  })

  it('consists of integers that add up to the reported counts, for any report', () => {
    const count = fc.oneof(
      fc.nat(1000),
      fc.constantFrom(-1, 0.5, 1e18, '3', null, Number.NaN, undefined, 2 ** 53),
    )
    const details = fc.option(
      fc.record(
        {
          cached_tokens: count,
          cache_write_tokens: count,
          audio_tokens: count,
          image_tokens: count,
          reasoning_tokens: count,
        },
        { requiredKeys: [] },
      ),
    )
    const usageArbitrary = fc.record(
      {
        prompt_tokens: count,
        completion_tokens: count,
        total_tokens: count,
        prompt_tokens_details: details,
        completion_tokens_details: details,
        prompt_cache_hit_tokens: count,
        reasoning_tokens: count,
      },
      { requiredKeys: [] },
    )
    fc.assert(
      fc.property(usageArbitrary, fc.boolean(), (value, reasoningOutside) => {
        const read = readOpenAiUsage(value, { reasoningOutside })
        if (read === undefined) return
        for (const each of Object.values(read) as number[]) assert.ok(Number.isSafeInteger(each) && each >= 0)
        if (value.prompt_tokens != null) assert.equal(totalInput(read), value.prompt_tokens)
        if (value.completion_tokens == null) return
        if (reasoningOutside) assert.ok(totalOutput(read) >= Number(value.completion_tokens))
        else assert.equal(totalOutput(read), value.completion_tokens)
      }),
      { numRuns: 2_000 },
    )
  })

  it('counts the vendor’s citations, and its reasoning beside the rest, if it bills both', () => {
    const reportedUsage = {
      prompt_tokens: 33,
      completion_tokens: 7_163,
      total_tokens: 7_196,
      citation_tokens: 20_016,
      num_search_queries: 18,
      reasoning_tokens: 73_997,
    }
    assert.deepEqual(
      readOpenAiUsage(reportedUsage, { reasoningOutside: true }),
      usage({ input: 20_049, output: 7_163, reasoning: 73_997, searches: 18 }),
    )
  })

  it('keeps the cost that the vendor reports, to the last digit', () => {
    const tokens = { prompt_tokens: 1, completion_tokens: 1 }
    const cost = (costFields: object) => readOpenAiUsage({ ...tokens, ...costFields })?.vendorCost
    assert.equal(cost({ cost: 3.4e-7 }), '0.00000034')
    assert.equal(cost({ cost: 0 }), '0')
    assert.equal(cost({ cost: 12.5 }), '12.5')
    assert.equal(cost({ cost: { total_cost: 1.2e-8, currency: 'USD' } }), '0.000000012')
    assert.equal(cost({ cost_in_usd_ticks: 1_176_500 }), '0.00011765')
    assert.equal(cost({ estimated_cost: 0.0000268 }), '0.0000268')
    // With the client's own upstream key, another vendor bills the inference and this vendor only its fee.
    assert.equal(cost({ cost: 0.1, is_byok: true, cost_details: { upstream_inference_cost: 0.2 } }), '0.3')
    assert.equal(cost({ cost: 0.1, is_byok: false, cost_details: { upstream_inference_cost: 0.2 } }), '0.1')
    for (const none of [-1, '0.1', null, 1e300, { total_cost: 1, currency: 'EUR' }])
      assert.equal(cost({ cost: none }), undefined)
  })

  it('accepts any JSON without throwing', () => {
    fc.assert(
      fc.property(fc.jsonValue(), value => {
        const read = usageIn({ usage: value, x_groq: value, choices: value })
        const { vendorCost: _cost, ...counts } = read ?? { vendorCost: '' }
        for (const each of Object.values(counts)) assert.ok(Number.isSafeInteger(each))
      }),
    )
  })
})
