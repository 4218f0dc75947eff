import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { oneEngine } from '../support/gateway.ts'
import { suiteRelay } from '../support/relay.ts'

for (const engine of oneEngine('postgres'))
  describe(`models with a single channel, on ${engine} (docs/reference/console.md: Attention)`, () => {
    const relay = suiteRelay(engine)
    const need = async () =>
      (await relay.must(relay.api('GET', '/api/attention'))).find(
        ({ kind }: { kind: string }) => kind === 'model_single_channel',
      )

    it('need attention, in one item, once there are two channels', async () => {
      const models = Array.from({ length: 30 }, (_, index) => `model-${index}`)
      await relay.addChannel({ name: 'first', models })
      assert.equal(await need(), undefined)
      const second = await relay.addChannel({ name: 'second', models: ['model-0'] })
      const { count, name, level } = await need()
      assert.deepEqual([count, name, level], [29, '29', 'info'])
      await relay.must(relay.api('POST', `/api/channel/${second}/status`, { status: 2 }))
      assert.equal(await need(), undefined)
    })
  })
