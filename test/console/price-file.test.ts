import assert from 'node:assert/strict'
import { describe, it } from 'node:test'

/** By its address, because the types of the console need a browser's. */
const FILE = new URL('../../console/src/pages/prices/price-file.ts', import.meta.url).href
const { priceFile, readPriceFile } = (await import(FILE)) as {
  priceFile(prices: readonly object[]): string
  readPriceFile(text: string): { prices?: readonly { model: string }[]; fault?: string; at?: string }
}
const textOf = (url: string) => decodeURIComponent(url.slice(url.indexOf(',') + 1))

describe('a file of prices', () => {
  it('that was exported has the same models when it is imported, also those that begin like a formula', () => {
    const models = ['@cf/meta/llama-3', '=model', '-model', '+model', "'quoted", 'gpt-4o']
    const text = textOf(priceFile(models.map(model => ({ model, input: 1, unit_note: '@note' }))))
    assert.match(text, /^'@cf\/meta\/llama-3,/m)
    const { prices = [] } = readPriceFile(text)
    assert.deepEqual(
      prices.map(({ model }) => model),
      models,
    )
    assert.ok(prices.every(price => 'unit_note' in price && price.unit_note === '@note'))
  })

  it('is refused if a line has more cells than the header, such as a price with a decimal comma', () => {
    assert.deepEqual(readPriceFile('model,input,output\ngpt-4o,2,50,10'), {
      fault: 'unreadable',
      at: '2: output',
    })
  })
})
