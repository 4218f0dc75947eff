import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { oneEngine } from '../../support/gateway.ts'
import { suiteRelay } from '../../support/relay.ts'

/** USD per million tokens: the maximum of a price. */
const MAX_PRICE = 1e9
/** Some 9,000 tokens, of which each costs 1,000 USD. */
const LONG = 'a word '.repeat(4_400)

for (const engine of oneEngine('sqlite'))
  describe(`a shadow price of an Admin on ${engine}`, () => {
    const relay = suiteRelay(engine)

    it('cannot make settled requests fail in the ledger, however high its sums are', async () => {
      const admin = await relay.gateway.createUser({ role: 10 })
      const { model } = await relay.serve('sim-ok')
      const body = { kind: 'price', model, changes: { input: MAX_PRICE, output: MAX_PRICE } }
      const { id } = await relay.must(relay.api('POST', '/api/canary/', body, { token: admin.accessToken }))
      const { id: tokenId, key } = await relay.newToken({ unlimited_quota: true })
      const ask = () => relay.chat(key, { model, messages: [{ role: 'user', content: LONG }] })
      for (let turn = 1; turn <= 3; turn++) {
        assert.equal((await ask()).status, 200)
        await relay.rowsOf(tokenId, turn)
      }
      await Promise.all([ask(), ask(), ask()])
      const rows = await relay.rowsOf(tokenId, 6)
      assert.ok(rows.every(({ other }) => Number(other.shadow[0].cost) > 4_000_000))
      const { shadow } = await relay.must(relay.api('GET', `/api/canary/${id}`))
      assert.equal(shadow.requests, 6)
      assert.equal(shadow.shadow_cost, '9007199.254740991')
      for (const group of ['day', 'user', 'token']) {
        const report = await relay.must(relay.api('GET', `/api/canary/${id}/report?group=${group}`))
        assert.equal(report.items[0].requests, 6)
      }
    })
  })
