import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { type Simulator, startSimulator } from '../../../simulator/server.ts'
import { retryingFetch } from '../../support/client.ts'
import { FENCE, type FleetMember, startFleet, type TestFleet } from '../../support/fleet.ts'
import { until, verifyThroughSocket } from '../../support/process.ts'
import { createResources } from '../../support/relay.ts'

const isCampaign = process.env.SLUICE_CAMPAIGN !== undefined
/** The requests of a burst that not all can be paid. */
const BURST = isCampaign ? 300 : 150
/** Units of a request that costs 0.01 USD. */
const COST = 5_000

describe('money of three gateways on one database (docs/reference/money.md: Leases)', () => {
  let simulator: Simulator | undefined
  let fleet: TestFleet
  let resources: ReturnType<typeof createResources>

  before(async () => {
    simulator = await startSimulator()
    fleet = await startFleet(2, FENCE)
    await fleet.startMember(undefined, { SLUICE_WORKERS: '2' })
    resources = createResources((fleet.members[0] as FleetMember).server.api, simulator.url)
  })
  after(async () => {
    await fleet?.close()
    await simulator?.close()
  })

  async function chat(member: number, key: string, model: string): Promise<number> {
    const { server } = fleet.members[member] as FleetMember
    const response = await retryingFetch(`${server.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model, messages: [{ role: 'user', content: 'Hi' }] }),
    })
    const text = await response.text()
    assert.ok([200, 429].includes(response.status), text)
    return response.status
  }
  const serve = () => resources.serve('sim-words-2', {}, { per_call: 0.01 })
  const successes = (statuses: readonly number[]) => statuses.filter(status => status === 200).length
  const freshToken = (member: number, id: number) =>
    until('a balance that includes all nodes', async () => {
      const reply = await (fleet.members[member] as FleetMember).server.api('GET', `/api/token/${id}`)
      return reply.headers.has('x-sluice-stale') ? undefined : resources.must(Promise.resolve(reply))
    })

  it(`pays for exactly as many of ${BURST} requests over all of them as the balance covers`, async () => {
    const { model } = await serve()
    for (const affordable of [67, 10]) {
      const { id, key } = await resources.newToken({ remain_quota: affordable * COST + COST - 1 })
      const replies = await Promise.all(Array.from({ length: BURST }, (_each, i) => chat(i % 3, key, model)))
      assert.equal(successes(replies), affordable)
      const { remain_quota, used_quota, held_quota } = await freshToken(1, id)
      assert.deepEqual(
        { remain_quota, used_quota, held_quota },
        { remain_quota: COST - 1, used_quota: affordable * COST, held_quota: 0 },
      )
    }
  })

  it('refuses no request while what is left is idle on another machine', async () => {
    const { model } = await serve()
    for (let round = 0; round < 4; round++) {
      const { key } = await resources.newToken({ remain_quota: 7 * COST })
      // Each machine leases more than its request needs, until another one needs it.
      for (let i = 0; i < 7; i++) assert.equal(await chat((i + round) % 3, key, model), 200, `request ${i}`)
      for (const member of [0, 1, 2]) assert.equal(await chat(member, key, model), 429)
    }
  })

  it('reports a balance that includes the answers of all machines', async () => {
    const { model } = await serve()
    const { id, key } = await resources.newToken({ remain_quota: 1_000 * COST })
    let stale = 0
    for (let round = 1; round <= 20; round++) {
      assert.equal(await chat(round % 3, key, model), 200)
      const reply = await (fleet.members[(round + 1) % 3] as FleetMember).server.api(
        'GET',
        `/api/token/${id}`,
      )
      if (reply.headers.has('x-sluice-stale')) stale += 1
      else assert.equal(reply.body.data.used_quota, round * COST)
    }
    assert.ok(stale <= 2, `${stale} of 20 are stale`)
  })

  it('takes a lowered quota into account on all of them before the 200', async () => {
    const { model } = await serve()
    const { id, key } = await resources.newToken({ remain_quota: 1_000 * COST })
    for (const member of [0, 1, 2]) assert.equal(await chat(member, key, model), 200)
    const { api } = (fleet.members[2] as FleetMember).server
    await resources.must(api('PUT', '/api/token/', { id, remain_quota: 2 * COST }))
    const replies = await Promise.all(Array.from({ length: 30 }, (_each, i) => chat(i % 3, key, model)))
    assert.equal(successes(replies), 2)
  })

  it('says that a balance is stale while a machine does not respond', async () => {
    const { model } = await serve()
    const { id, key } = await resources.newToken({ unlimited_quota: true })
    assert.equal(await chat(1, key, model), 200)
    const silent = fleet.members[1] as FleetMember
    silent.proxy.set('stall')
    const { api } = (fleet.members[0] as FleetMember).server
    const reply = await api('GET', `/api/token/${id}`)
    assert.equal(reply.headers.get('x-sluice-stale'), '1')
    silent.proxy.set('pass')
    await freshToken(0, id)
  })

  it('agrees with the ledger', async () => {
    for (const { dataDir } of fleet.members) {
      const { ok, lines } = await verifyThroughSocket({ dataDir })
      // Four nodes, because one of the three machines has two workers.
      const unseen = lines.find(line => line.startsWith('journals not seen: ')) ?? ''
      const own = lines.filter(line => line.startsWith('journal of ')).length
      assert.equal(unseen.split(', ').length + own, 4, lines.join('\n'))
      assert.ok(ok, lines.join('\n'))
    }
  })
})
