import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { ENGINES, type Gateway, startGateway } from './support/gateway.ts'

for (const engine of ENGINES) {
  describe(`tokens on ${engine} (spec 4.1)`, () => {
    let gateway: Gateway
    before(async () => {
      gateway = await startGateway({ engine })
    })
    after(() => gateway.close())

    it('are made with a whole value of sk- and 48 letters or digits, and masked ever after', async () => {
      const { status, body } = await gateway.api('POST', '/api/token/', { name: 'first' })
      assert.equal(status, 200)
      assert.match(body.data.key, /^sk-[A-Za-z0-9]{48}$/)
    })
  })
}
