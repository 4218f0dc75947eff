import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { type PriceInput, readPrice } from '../../src/domain/price.ts'
import { readExpression } from '../../src/manage/import/new-api/expression.ts'
import { tryPrices } from '../../src/manage/import/new-api/price-trial.ts'
import { readRatios } from '../../src/manage/import/new-api/ratios.ts'
import { readCsvPrices } from '../../src/manage/import/prices/csv.ts'
import { runHere } from '../support/command.ts'
import {
  newDirectory,
  newGround,
  type Server,
  type ServerOptions,
  settingsOf,
  startServer,
} from '../support/process.ts'

const OPENROUTER = {
  data: [
    {
      id: 'openai/gpt-5',
      pricing: {
        ...{ prompt: '0.00000125', completion: '0.00001', request: '0', image: '0', web_search: '0.01' },
        ...{ internal_reasoning: '0', input_cache_read: '0.000000125' },
      },
      top_provider: { max_completion_tokens: 128_000 },
    },
    { id: 'vendor-a/twin', pricing: { prompt: '0.000001', completion: '0.000002' } },
    { id: 'vendor-b/twin', pricing: { prompt: '0.000003', completion: '0.000004' } },
    { id: 'openrouter/auto', pricing: { prompt: '-1', completion: '-1' } },
    { id: 'perplexity/sonar', pricing: { prompt: '0.000001', completion: '0.000001', request: '0.005' } },
    { id: 'unserved/model', pricing: { prompt: '0.000009', completion: '0.000009' } },
    { id: 'broken', pricing: null },
    null,
  ],
}

describe('prices of lists (docs/moving/prices.md)', () => {
  let ground: ServerOptions
  let server: Server
  const list = createServer((_request, response) => response.end(JSON.stringify(OPENROUTER)))

  const importPrices = (...words: string[]) =>
    runHere(['import', ...words, '--json'], { env: settingsOf(ground) })
  const must = async (...words: string[]) => {
    const { code, stdout, stderr } = await importPrices(...words)
    assert.equal(code, 0, stderr)
    return JSON.parse(stdout)
  }
  const price = async (model: string) => {
    const { body } = await server.api('GET', `/api/price/?model=${encodeURIComponent(model)}&source=admin`)
    return body.data.items[0]
  }
  const csv = (text: string) => {
    const file = join(newDirectory(), 'prices.csv')
    writeFileSync(file, text)
    return file
  }

  before(async () => {
    await new Promise<void>(resolve => list.listen(0, '127.0.0.1', resolve))
    ground = await newGround('sqlite')
    server = await startServer(ground)
    const models = ['gpt-5', 'twin', 'openrouter/auto', 'sonar', 'local-model']
    const channel = { name: 'c', type: 8, key: 'k', base_url: 'https://example.com', models }
    const reply = await server.api('POST', '/api/channel/', { mode: 'single', channel })
    assert.equal(reply.status, 200, reply.text)
  })
  after(async () => {
    list.close()
    await server?.stop()
  })

  it('of OpenRouter apply to served models, by id or by a name that only one vendor has', async () => {
    const url = `http://127.0.0.1:${(list.address() as AddressInfo).port}/api/v1/models`
    const report = await must('openrouter', '--from', url)
    assert.deepEqual(report.counts, { prices: { created: 1, changed: 0, unchanged: 0, skipped: 0 } })
    const { input, output, cached_input, tools, max_output_tokens } = await price('gpt-5')
    assert.deepEqual(
      [input, output, cached_input, tools.web_search, max_output_tokens],
      [1.25, 10, 0.125, 0.01, 128_000],
    )
    const notes = report.notes.map(
      (note: { subject: string; message: string }) => `${note.subject}: ${note.message}`,
    )
    assert.match(notes.join('\n'), /"twin": has several vendors/)
    assert.match(notes.join('\n'), /"openrouter\/auto": has no fixed price/)
    assert.match(notes.join('\n'), /"sonar": has a fee per request/)
    assert.equal((await must('openrouter', '--from', url)).counts.prices.unchanged, 1)
    assert.equal((await must('openrouter', '--from', url, '--all', '--dry-run')).counts.prices.created, 4)
  })

  it('of a CSV file become versions, and replace others only on request', async () => {
    const file = csv(
      '\ufeffModel,input,output,tools.web_search,unit_note\r\nlocal-model,0.5,"1.5",,"a ""note"", quoted"\r\ngpt-5,9,9,,\r\n',
    )
    const report = await must('csv', file)
    assert.deepEqual(report.counts.prices, { created: 1, changed: 0, unchanged: 0, skipped: 1 })
    assert.match(report.notes[0].message, /a price was set here; it stays/)
    const local = await price('local-model')
    assert.deepEqual([local.input, local.output, local.unit_note], [0.5, 1.5, 'a "note", quoted'])
    assert.equal((await price('gpt-5')).input, 1.25)
    assert.equal((await must('csv', file, '--replace')).counts.prices.created, 1)
    assert.equal((await price('gpt-5')).input, 9)
    assert.equal((await must('csv', csv('model,input\nlocal-model,0.25\n'))).counts.prices.changed, 1)
    assert.equal((await price('local-model')).input, 0.25)
  })

  it('are refused whole with the line and column of the first error', async () => {
    for (const [text, message] of [
      ['', /the file is empty/],
      ['a,b\n1,2', /one of them "model"/],
      ['model,price\nx,1', /the column "price" is unknown/],
      ['model,input\nx,-1', /line 2, input: "-1" is not a price/],
      ['model,input\nx,1\nx,2', /line 3: "x" has a price already/],
      ['model,input\n,1', /line 2 has no model/],
      ['model,input\nx,1,2', /line 2 has more cells/],
      ['model,input\n"x,1', /no valid CSV/],
      ['model,input\nx,1e400', /is not a price/],
    ] as const) {
      const { code, stderr } = await importPrices('csv', csv(text))
      assert.equal(code, 1, text)
      assert.match(stderr, message)
    }
    const missing = await importPrices('csv', '/no/such/file.csv')
    assert.match(missing.stderr, /^sluice: FILE: \/no\/such\/file\.csv cannot be read \(ENOENT\)/)
    const unreachable = await importPrices('openrouter', '--from', 'http://127.0.0.1:2/models')
    assert.match(unreachable.stderr, /ECONNREFUSED[^\n]*use --from FILE/)
    assert.equal((await importPrices('csv')).code, 64)
  })

  it('are read from cells with line breaks', () => {
    assert.deepEqual(readCsvPrices('model,unit_note,input\n"a","two\nlines",1\nb,,2'), [
      { model: 'a', price: { unit_note: 'two\nlines', input: 1 } },
      { model: 'b', price: { input: 2 } },
    ])
  })
})

describe('a price expression of new-api', () => {
  it('with a sum of rates is a price', () => {
    assert.deepEqual(readExpression('tier("base", p * 2.5 + c * 15 + cr * 0.25)'), {
      input: 2.5,
      output: 15,
      cached_input: 0.25,
    })
    assert.deepEqual(readExpression('3 * p + c'), { input: 3, output: 1 })
  })

  it('with products of factors is a price of six decimals', () => {
    const price = readExpression(
      'p * 0.1 * 3 + c * 0.15 * 1.1 + cr * 0.0000004 + cr * 0.0000004',
    ) as PriceInput
    assert.deepEqual(price, { input: 0.3, output: 0.165, cached_input: 0.000001 })
    assert.ok('price' in readPrice(price))
  })

  it('with conditions about the length is a price with tiers', () => {
    assert.deepEqual(
      readExpression('len <= 200000 ? tier("a", p * 1.25 + c * 10) : tier("b", p * 2.5 + c * 15)'),
      { input: 1.25, output: 10, tiers: [{ input_over: 200_000, input: 2.5, output: 15 }] },
    )
    assert.deepEqual(readExpression('len > 100 ? p * 3 : len > 50 ? p * 2 : p * 1'), {
      ...{ input: 1, output: 0 },
      tiers: [
        { input_over: 50, input: 2, output: 0 },
        { input_over: 100, input: 3, output: 0 },
      ],
    })
    assert.equal(readExpression('len < 10 ? p * 1 : p * 2')?.tiers?.[0]?.input_over, 9)
  })

  it('of any other form cannot be carried over', () => {
    for (const text of [
      '',
      'p * c',
      'p / 2',
      'param("x") == "y" ? p : c',
      'tier("a", p * 1',
      'tier(a, p)',
      'p + 1',
      'len <= 10 ? p : len <= 20 ? p : len <= 5 ? p : c',
      `${'('.repeat(500)}p${')'.repeat(500)}`,
      'p * 1; drop',
      '__proto__ * 1',
    ])
      assert.equal(readExpression(text), undefined, text)
  })
})

describe('the derived prices', () => {
  const prices = new Map([
    ['m', { input: 2, output: 8, cached_input: 1, cache_write: 2.5 }],
    ['call', { per_call: 0.01 }],
  ])
  const row = (fields: object, other: object = {}) => ({
    ...{
      type: 2n,
      model_name: 'm',
      prompt_tokens: 1000n,
      completion_tokens: 100n,
      other: JSON.stringify(other),
    },
    ...fields,
  })

  it('agree with rows that were charged by the same ratios', () => {
    const rows = [
      row({ quota: 1_400n }),
      row({ quota: 1_300n }, { cache_tokens: 200 }),
      row({ quota: 1_500n }, { cache_tokens: 200, claude: true }),
      row({ quota: 1_120n }, { group_ratio: 0.8, user_group_ratio: -1 }),
      row({ quota: 5_000n, model_name: 'call' }),
    ]
    assert.deepEqual(tryPrices(rows, prices, 500_000), { compared: 5, differing: new Map() })
  })

  it('differ from rows that were charged by others; rows of other kinds do not count', () => {
    const rows = [
      row({ quota: 2_800n }),
      row({ quota: 9n, type: 1n }),
      row({ quota: 9n, model_name: 'other' }),
      row({ quota: 9n }, { ws: true }),
      row({ quota: 9n, other: 'no json' }),
    ]
    assert.deepEqual(tryPrices(rows, prices, 500_000), { compared: 1, differing: new Map([['m', 1]]) })
  })
})

describe('ratios of new-api', () => {
  const pricesOf = (options: Record<string, unknown>, models: readonly string[], unitsPerUsd = 500_000) =>
    Object.fromEntries(
      readRatios({
        options: new Map(Object.entries(options).map(([name, value]) => [name, JSON.stringify(value)])),
        variant: 'new-api',
        served: new Map(models.map(model => [model, { types: new Set([1]), mappedTo: new Set([model]) }])),
        unitsPerUsd,
        notes: { note() {} },
      }).map(({ model, price }) => [model, price]),
    )

  it('have output ratios in the order of the program', () => {
    const models = [
      'vendor/gpt-5',
      'gpt-5-mini',
      'gpt-5.4-nano',
      'gpt-5.1',
      'gpt-4o-mini',
      'o3',
      'gemini-2.5-pro',
      'unknown',
    ]
    const ModelRatio = Object.fromEntries(models.map(model => [model, 1]))
    const prices = pricesOf(
      { ModelRatio, CompletionRatio: { 'vendor/gpt-5': 7, 'gpt-5-mini': 7, 'gpt-5.1': 7 } },
      models,
    )
    assert.deepEqual(
      models.map(model => prices[model]?.output),
      [14, 16, 12.5, 14, 8, 8, 16, 2],
    )
  })

  it('use the saved table of cached input alone, and else the defaults', () => {
    const ModelRatio = { 'gpt-4o': 1, 'gpt-4.1': 1, 'claude-opus-4': 1, other: 1 }
    const models = Object.keys(ModelRatio)
    const cached = (prices: Record<string, { cached_input?: number | null | undefined } | undefined>) =>
      models.map(model => prices[model]?.cached_input)
    assert.deepEqual(cached(pricesOf({ ModelRatio }, models)), [1, 0.5, 0.2, 2])
    assert.deepEqual(cached(pricesOf({ ModelRatio, CacheRatio: { other: 0.3 } }, models)), [2, 2, 2, 0.6])
  })

  it('keep their value in USD with another number of units', () => {
    const prices = pricesOf({ ModelRatio: { m: 1 }, ModelPrice: { call: 0.1 } }, ['m', 'call'], 1_000_000)
    assert.deepEqual([prices.m?.input, prices.call], [1, { per_call: 0.1 }])
  })

  it('are rounded to six decimals, and shared by wildcards', () => {
    const prices = pricesOf(
      { ModelRatio: { m: 0.135, 'gpt-4-gizmo-*': 15 }, CompletionRatio: { m: 4.074074 } },
      ['m', 'gpt-4-gizmo-g-abc'],
    )
    assert.deepEqual([prices.m?.input, prices.m?.output], [0.27, 1.1])
    assert.equal(prices['gpt-4-gizmo-g-abc']?.input, 30)
  })
})
