import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { oneEngine } from '../support/engines.ts'
import { INPUT_NANOS, OUTPUT_NANOS, suiteRelay } from '../support/relay.ts'
import { jsonAnswer, startVendor, type Vendor } from '../support/scripted-vendor.ts'

const completion = (usage: object) =>
  jsonAnswer({
    id: 'c1',
    object: 'chat.completion',
    choices: [{ index: 0, message: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' }],
    usage: { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15, ...usage },
  })

/** The cost of ten input and five output tokens in this test. */
const OURS = 10 * INPUT_NANOS + 5 * OUTPUT_NANOS

for (const engine of oneEngine('sqlite')) {
  describe(`a vendor that reports the cost of a request, on ${engine}`, () => {
    const relay = suiteRelay(engine)
    let vendor: Vendor
    let usage: object
    before(async () => {
      vendor = await startVendor(() => completion(usage))
    })
    after(async () => {
      await vendor.close()
    })

    async function open() {
      const { model, channels } = await relay.serve('m', { base_url: vendor.url })
      const { id, key } = await relay.newToken()
      const ask = async (reportedUsage: object) => {
        usage = reportedUsage
        const reply = await relay.chat(key, { model, messages: [{ role: 'user', content: 'Hi' }] })
        assert.equal(reply.status, 200, reply.text)
      }
      const channel = () => relay.must(relay.api('GET', `/api/channel/${channels[0]}`))
      return { id, model, ask, channel }
    }

    it('has it in the row of the request, as reported, beside the charged cost', async () => {
      const { id, model, ask } = await open()
      await ask({ cost: 0.0000312345678 })
      await ask({ cost_in_usd_ticks: 176_500 })
      await ask({ cost: { total_cost: 1.2e-8, currency: 'USD' } })
      await ask({})
      await relay.rowsOf(id, 4)
      const { items } = await relay.must(relay.api('GET', `/api/log/?model_name=${model}`))
      assert.deepEqual(
        items.map((row: { vendor_cost: string | null; cost: string }) => [row.vendor_cost, row.cost]),
        [
          [null, '0.00002'],
          ['0.000000012', '0.00002'],
          ['0.00001765', '0.00002'],
          ['0.0000312345678', '0.00002'],
        ],
      )
      const file = await relay.api(
        'GET',
        `/api/log/export?model_name=${model}&format=csv&columns=cost,vendor_cost`,
      )
      assert.equal(file.text.split('\n')[2], '0.00002,0.000000012')
    })

    it('has the difference to the charged cost on its channel, over the requests with a reported cost', async () => {
      const { id, ask, channel } = await open()
      assert.equal((await channel()).vendor_cost, '0')
      await ask({})
      await ask({ cost: 0.00003 })
      await ask({ cost: 0.000015 })
      await relay.rowsOf(id, 3)
      const { vendor_cost, vendor_cost_difference } = await channel()
      assert.equal(vendor_cost, '0.000045')
      assert.equal(vendor_cost_difference, '0.000005')
      assert.equal(OURS, 20_000)
    })
  })
}
