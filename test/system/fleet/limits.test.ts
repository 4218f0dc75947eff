import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { type Simulator, startSimulator } from '../../../simulator/server.ts'
import { retryingFetch } from '../../support/client.ts'
import { type FleetMember, startFleet, type TestFleet } from '../../support/fleet.ts'
import { until } from '../../support/process.ts'
import { createResources } from '../../support/relay.ts'

const limitsOf = (limits: Readonly<Record<string, number>>) => ({
  unlimited_quota: true,
  limits: { rpm: null, tpm: null, concurrency: null, ...limits },
})

describe('limits of three gateways on one database (docs/reference/limits.md: Rate limits)', () => {
  let simulator: Simulator | undefined
  let fleet: TestFleet
  let resources: ReturnType<typeof createResources>

  before(async () => {
    simulator = await startSimulator()
    // One of them counts in its supervisor, the others in their only process.
    fleet = await startFleet(2)
    await fleet.startMember(undefined, { SLUICE_WORKERS: '2' })
    resources = createResources((fleet.members[0] as FleetMember).server.api, simulator.url)
  })
  after(async () => {
    await fleet?.close()
    await simulator?.close()
  })

  /** Resolves when the response has begun. */
  const begin = ({ server }: FleetMember, key: string, model: string, more = {}, signal?: AbortSignal) =>
    retryingFetch(`${server.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model, messages: [{ role: 'user', content: 'Hi' }], ...more }),
      ...(signal && { signal }),
    })

  async function chat(member: FleetMember, key: string, model: string) {
    const response = await begin(member, key, model)
    return { status: response.status, text: await response.text(), headers: response.headers }
  }

  /** Calls each member as often as its part says, all at once. */
  const fromAll = <T>(parts: readonly number[], call: (member: FleetMember) => Promise<T>): Promise<T[]> =>
    Promise.all(
      parts.flatMap((count, index) =>
        Array.from({ length: count }, () => call(fleet.members[index] as FleetMember)),
      ),
    )

  /** The number of successes of a burst in which each member gets its part. */
  async function burst(parts: readonly number[], key: string, model: string) {
    const replies = await fromAll(parts, member => chat(member, key, model))
    for (const { status, text } of replies) assert.ok(status === 200 || status === 429, text)
    return replies.filter(({ status }) => status === 200).length
  }

  // test/simulation/rate-shares.test.ts: almost all of the limit is used, on a simulated clock.
  it('admit no more requests a minute than the limit allows, however they are spread', async () => {
    const { model } = await resources.serve('sim-words-2')
    for (const parts of [
      [50, 50, 50],
      [130, 10, 10],
      [0, 0, 100],
    ]) {
      const { key } = await resources.newToken(limitsOf({ rpm: 40 }))
      const admitted = await burst(parts, key, model)
      assert.ok(admitted >= 1 && admitted <= 40, `${admitted} of 40 for ${parts}`)
      // What one machine had left is used by another.
      const later = await burst([5, 5, 5], key, model)
      assert.ok(admitted + later <= 40)
    }
  })

  it('let any machine use the last place, one request after the other', async () => {
    const { model } = await resources.serve('sim-words-2')
    const { key } = await resources.newToken(limitsOf({ rpm: 9 }))
    for (let i = 0; i < 9; i++) {
      const { status, text } = await chat(fleet.members[i % 3] as FleetMember, key, model)
      assert.equal(status, 200, `request ${i}: ${text}`)
    }
    for (const member of fleet.members) {
      const { status, headers } = await chat(member, key, model)
      assert.equal(status, 429)
      assert.equal(headers.get('x-ratelimit-limit-requests'), '9')
      assert.ok(Number(headers.get('retry-after')) >= 1)
    }
  })

  it('share the places of running requests', async () => {
    const { model } = await resources.serve('sim-words-2')
    const one = await resources.newToken(limitsOf({ concurrency: 1 }))
    for (let i = 0; i < 12; i++) {
      const { status, text } = await chat(fleet.members[i % 3] as FleetMember, one.key, model)
      assert.equal(status, 200, `request ${i}: ${text}`)
    }
    const { model: long } = await resources.serve('sim-words-4000-pace-50')
    const five = await resources.newToken(limitsOf({ concurrency: 5 }))
    // The streams run until every request has been admitted or refused.
    const leaving = new AbortController()
    const responses = await fromAll([10, 10, 10], member =>
      begin(member, five.key, long, { stream: true }, leaving.signal),
    )
    const statuses = responses.map(({ status }) => status)
    leaving.abort()
    assert.deepEqual(
      statuses.toSorted(),
      Array.from({ length: 30 }, (_each, at) => (at < 5 ? 200 : 429)),
    )
  })

  it('apply a lowered limit before the 200', async () => {
    const { model } = await resources.serve('sim-words-2')
    const { id, key } = await resources.newToken(limitsOf({ rpm: 1_000 }))
    assert.equal(await burst([20, 20, 20], key, model), 60)
    const { api } = (fleet.members[1] as FleetMember).server
    await resources.must(api('PUT', '/api/token/', { id, limits: { rpm: 62, tpm: null, concurrency: null } }))
    const admitted = await burst([10, 10, 10], key, model)
    assert.ok(admitted <= 2, `${admitted} of 2`)
  })

  it('count tokens', async () => {
    const { model } = await resources.serve('sim-words-40')
    const { key } = await resources.newToken(limitsOf({ tpm: 200 }))
    let admitted = 0
    for (let i = 0; i < 30; i++)
      if ((await chat(fleet.members[i % 3] as FleetMember, key, model)).status === 200) admitted += 1
    const single = await resources.newToken(limitsOf({ tpm: 200 }))
    let alone = 0
    for (let i = 0; i < 30; i++)
      if ((await chat(fleet.members[0] as FleetMember, single.key, model)).status === 200) alone += 1
    assert.ok(admitted >= 1 && admitted <= alone + 2, `${admitted} over three machines, ${alone} on one`)
  })

  it('return the share of a machine that stops', async () => {
    const { model } = await resources.serve('sim-words-2')
    const { key } = await resources.newToken(limitsOf({ rpm: 30 }))
    const fourth = await fleet.startMember()
    assert.equal((await chat(fourth, key, model)).status, 200)
    await fourth.server.stop()
    assert.equal(await burst([15, 15, 15], key, model), 29)
  })

  it('count failed sign-ins', async () => {
    const signIn = (member: FleetMember, password: string) =>
      member.server.api('POST', '/api/user/login', { username: 'root', password }, { token: null })
    const statuses: number[] = []
    await until('the account to be blocked everywhere', async () => {
      const { status } = await signIn(fleet.members[statuses.length % 3] as FleetMember, 'a wrong password')
      statuses.push(status)
      return status === 429 ? true : undefined
    })
    assert.deepEqual(statuses, [...Array.from({ length: 5 }, () => 401), 429])
  })
})
