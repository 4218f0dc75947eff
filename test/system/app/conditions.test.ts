import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { type Simulator, startSimulator } from '../../../simulator/server.ts'
import { retryingFetch } from '../../support/client.ts'
import { newDirectory, type Server, startServer } from '../../support/process.ts'
import { createResources } from '../../support/relay.ts'

const WORKERS = 2

describe(`a channel that cools down in one of ${WORKERS} workers (docs/reference/routing.md: Cooldown)`, () => {
  let simulator: Simulator | undefined
  let server: Server
  before(async () => {
    simulator = await startSimulator()
    server = await startServer({ dataDir: newDirectory(), env: { SLUICE_WORKERS: String(WORKERS) } })
  })
  after(async () => {
    await server?.stop()
    await simulator?.close()
  })

  it('is cooling down whichever worker is asked', async () => {
    const { serve, newToken, must } = createResources(server.api, simulator?.url ?? '')
    const { model, channels } = await serve('sim-status-401')
    const { key } = await newToken({ unlimited_quota: true })
    const response = await retryingFetch(`${server.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model, messages: [{ role: 'user', content: 'Hello' }] }),
    })
    assert.equal(response.status, 502, await response.text())
    // A connection for each request, so that every worker gets some.
    for (let i = 0; i < 3 * WORKERS; i++) {
      const health = await must(
        server.api('GET', '/api/channel/health', undefined, { headers: { connection: 'close' } }),
      )
      assert.deepEqual(
        health.map((each: { channel_id: number; state: string }) => [each.channel_id, each.state]),
        [[channels[0], 'cooling_down']],
      )
      const { steps, passed_over } = await must(
        server.api('POST', '/api/route/explain', { model }, { headers: { connection: 'close' } }),
      )
      assert.deepEqual([steps, passed_over[0].reason], [[], 'resting'])
    }
  })
})
