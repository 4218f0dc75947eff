import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import pg from 'pg'
import { type Simulator, startSimulator } from '../../../simulator/server.ts'
import { retryingFetch } from '../../support/client.ts'
import { type FleetMember, SHORT_FENCE, startFleet, type TestFleet } from '../../support/fleet.ts'
import { until } from '../../support/process.ts'
import { createResources } from '../../support/relay.ts'

describe('the health of channels on several machines (docs/reference/routing.md: Cooldown)', () => {
  let simulator: Simulator | undefined
  let fleet: TestFleet
  let resources: ReturnType<typeof createResources>

  before(async () => {
    simulator = await startSimulator()
    fleet = await startFleet(2, { SLUICE_WORKERS: '2', ...SHORT_FENCE })
    resources = createResources((fleet.members[0] as FleetMember).server.api, simulator.url)
  })
  after(async () => {
    await fleet?.close()
    await simulator?.close()
  })

  const explain = async ({ server }: FleetMember, model: string) => {
    const { steps, passed_over } = await resources.must(server.api('POST', '/api/route/explain', { model }))
    return {
      steps: steps.map(({ channel_id }: { channel_id: number }) => channel_id),
      skipped: passed_over.map(({ channel_id, reason }: { channel_id: number; reason: string }) => [
        channel_id,
        reason,
      ]),
    }
  }
  const chat = ({ server }: FleetMember, key: string, model: string) =>
    retryingFetch(`${server.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model, messages: [{ role: 'user', content: 'Hi' }] }),
    }).then(async response => ({ status: response.status, text: await response.text() }))

  it('is known to all nodes soon after one has learnt it, and to a node that starts later', async () => {
    const [a, b] = fleet.members as [FleetMember, FleetMember]
    const { model, channels } = await resources.serve(['sim-status-429-retry-200', 'sim-words-2'])
    const { key } = await resources.newToken({ unlimited_quota: true })
    const healthy = await explain(b, model)
    assert.deepEqual(healthy.steps, channels)
    assert.equal((await chat(a, key, model)).status, 200)
    const isKnown = (member: FleetMember) =>
      until('the cooldown to be known', async () => {
        const { steps } = await explain(member, model)
        return steps.length === 1 && steps[0] === channels[1] ? true : undefined
      })
    await isKnown(b)
    assert.deepEqual(await explain(a, model), await explain(b, model))
    const late = await fleet.startMember()
    await isKnown(late)
    assert.deepEqual(await explain(late, model), await explain(a, model))
    // A successful test on one node ends the cooldown on all.
    await resources.must(
      b.server.api('PUT', '/api/channel/', { id: channels[0], model_mapping: { [model]: 'sim-words-2' } }),
    )
    const tested = await b.server.api('GET', `/api/channel/test/${channels[0]}?model=${model}`)
    assert.equal(tested.body.success, true, tested.text)
    for (const member of [a, b, late])
      await until('the end of the cooldown', async () =>
        (await explain(member, model)).steps.length === 2 ? true : undefined,
      )
  })

  it('stays as it is known now, while reports to a node that has crashed are repeated', async t => {
    const [a, b] = fleet.members as [FleetMember, FleetMember]
    const { model, channels } = await resources.serve(['sim-status-429-retry-200', 'sim-words-2'])
    const { key } = await resources.newToken({ unlimited_quota: true })
    await (await fleet.startMember()).server.kill()
    assert.equal((await chat(a, key, model)).status, 200)
    await until('the cooldown to be known', async () =>
      (await explain(b, model)).steps.length === 1 ? true : undefined,
    )
    await resources.must(
      b.server.api('PUT', '/api/channel/', { id: channels[0], model_mapping: { [model]: 'sim-words-2' } }),
    )
    const tested = await b.server.api('GET', `/api/channel/test/${channels[0]}?model=${model}`)
    assert.equal(tested.body.success, true, tested.text)
    for (const member of [a, b])
      await until('the end of the cooldown', async () =>
        (await explain(member, model)).steps.length === 2 ? true : undefined,
      )
    let repeats = 0
    const listener = new pg.Client({ connectionString: fleet.databaseUrl })
    t.after(() => listener.end())
    listener.on('notification', ({ payload }) => {
      if (payload?.includes('"health"')) repeats += 1
    })
    await listener.connect()
    await listener.query('listen sluice_fleet')
    await until('several repeats of the reports', async () => {
      for (const member of [a, b]) assert.deepEqual((await explain(member, model)).steps, channels)
      return repeats >= 5 ? true : undefined
    })
  })
})
