import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Settings } from '../../src/domain/setting.ts'
import { elevenlabs } from '../../src/providers/vendors/elevenlabs.ts'
import { openai } from '../../src/providers/vendors/openai.ts'
import {
  createAddressBook,
  openCatalog,
  type PriceBook,
  type RelayChannel,
} from '../../src/relay/catalog/catalog.ts'

const START_S = 1_800_000_000

describe('a price in the catalog', () => {
  const price = (input: number) => ({ rates: { input } })
  const versionIn = (catalog: Awaited<ReturnType<typeof openCatalog>>) => catalog.priceOf(['m'])?.version

  /** A catalog over a store with two price versions; the second takes effect after ten seconds. */
  const open = () => {
    const book: PriceBook = {
      inForce: new Map([['m', { version: 1, price: price(1) }]]),
      upcoming: [{ model: 'm', version: 2, price: price(2), effectiveTime: START_S + 10 }],
    }
    return openCatalog({
      channels: async () => [],
      channelsOf: async () => [],
      aliases: async () => [],
      prices: async () => book,
      canaries: async () => ({ channels: [], aliases: [], shadows: new Map() }),
      settings: async () => ({}) as Settings,
      shippedPrice: () => undefined,
      nowMs: Date.now,
    })
  }

  it('takes effect at its start time without another read of the store', async t => {
    t.mock.timers.enable({ apis: ['Date', 'setTimeout'], now: START_S * 1000 })
    const catalog = await open()
    t.mock.timers.tick(9_999)
    assert.equal(versionIn(catalog), 'admin:1')
    t.mock.timers.tick(1)
    assert.equal(versionIn(catalog), 'admin:2')
    catalog.close()
  })

  it('is in effect if it was read before its start time and arrives after it', async t => {
    t.mock.timers.enable({ apis: ['Date', 'setTimeout'], now: START_S * 1000 })
    const catalog = await open()
    t.mock.timers.tick(20_000)
    await catalog.refreshPrices()
    assert.equal(versionIn(catalog), 'admin:2')
    catalog.close()
  })
})

describe('the address of a channel', () => {
  const channelOf = (provider: object, baseUrl = '') =>
    ({ provider, baseUrl, setting: {}, headerOverride: { fixed: {} } }) as unknown as RelayChannel
  const openBook = (channel: RelayChannel, format: 'openai' | 'native') => {
    const addressOf = createAddressBook()
    return (voice: string) =>
      addressOf(channel, {
        operation: 'speech',
        format,
        isStream: false,
        model: 'm',
        key: { index: 0, value: 'k' } as Parameters<typeof addressOf>[1]['key'],
        values: { voice },
      })
  }
  const hrefs = (addressFor: ReturnType<typeof openBook>) =>
    ['alloy', 'echo', 'alloy'].map(voice => addressFor(voice)?.url.href)

  it('has the voice of each request where its path has a place for it', () => {
    const [alloy, echo, again] = hrefs(openBook(channelOf(elevenlabs), 'native'))
    assert.match(alloy ?? '', /\/v1\/text-to-speech\/alloy\/stream$/)
    assert.match(echo ?? '', /\/v1\/text-to-speech\/echo\/stream$/)
    assert.equal(again, alloy)
  })

  it('has the voice of each request where the base URL has a place for it', () => {
    const channel = channelOf(openai, 'https://provider.example/voices/{voice}')
    const [alloy, echo] = hrefs(openBook(channel, 'openai'))
    assert.match(alloy ?? '', /\/voices\/alloy\//)
    assert.match(echo ?? '', /\/voices\/echo\//)
  })

  it('is made for each request where requests are signed, because a signature may contain any value', () => {
    const exchange = { description: 'a signature', takes: () => true, sign: () => ({}) }
    const addressFor = openBook(channelOf({ ...openai, exchange }), 'openai')
    assert.notEqual(addressFor('alloy'), addressFor('echo'))
  })

  it('is made once where no value of a request is in it', () => {
    const addressFor = openBook(channelOf(openai), 'openai')
    assert.equal(addressFor('alloy'), addressFor('echo'))
  })
})
