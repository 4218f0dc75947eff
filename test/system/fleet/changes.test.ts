import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { type Simulator, startSimulator } from '../../../simulator/server.ts'
import { type RetryOptions, retryingFetch } from '../../support/client.ts'
import { runHere } from '../../support/command.ts'
import {
  FENCE,
  type FleetMember,
  SECRET,
  SHORT_FENCE,
  startFleet,
  type TestFleet,
} from '../../support/fleet.ts'
import { newDirectory, settingsOf, until } from '../../support/process.ts'
import { createResources } from '../../support/relay.ts'

/** Between the requests of a client. */
const PAUSE_MS = 5

const ask = (model: string) =>
  JSON.stringify({ model, messages: [{ role: 'user', content: 'How are you today?' }] })

async function chat(
  { server }: Pick<FleetMember, 'server'>,
  key: string,
  model: string,
  options: RetryOptions = {},
) {
  const init = {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: ask(model),
  }
  const response = await retryingFetch(`${server.url}/v1/chat/completions`, init, options)
  return { status: response.status, text: await response.text() }
}

describe('three gateways on one database (docs/reference/management-api.md: Changes in a fleet)', () => {
  let simulator: Simulator | undefined
  let fleet: TestFleet
  let a: FleetMember
  let b: FleetMember
  let c: FleetMember
  let resources: ReturnType<typeof createResources>

  before(async () => {
    simulator = await startSimulator()
    fleet = await startFleet(2, SHORT_FENCE)
    // The one that is cut off has several nodes.
    await fleet.startMember(undefined, { SLUICE_WORKERS: '2' })
    ;[a, b, c] = fleet.members as [FleetMember, FleetMember, FleetMember]
    resources = createResources(a.server.api, simulator.url)
  })
  after(async () => {
    await fleet?.close()
    await simulator?.close()
  })

  const nodes = async (member: FleetMember) =>
    (await resources.must(member.server.api('GET', '/api/node/'))) as {
      id: string
      state: string
      applied: number
      position: number
    }[]

  it('list each other', async () => {
    const list = await nodes(b)
    assert.equal(list.length, 4)
    assert.deepEqual(new Set(list.map(({ state }) => state)), new Set(['up']))
  })

  it('admit no request of a deleted token after the 200, under load on all of them', async () => {
    const { model } = await resources.serve('sim-words-4')
    for (const changing of [b, c, a]) {
      const { id, key } = await resources.newToken({ unlimited_quota: true })
      let isDeleted = false
      let served = 0
      const admittedLate: string[] = []
      const load = fleet.members.flatMap(member =>
        Array.from({ length: 8 }, async () => {
          for (;;) {
            const wasDeleted = isDeleted
            const { status, text } = await chat(member, key, model)
            if (status === 200) served += 1
            if (wasDeleted && status !== 401) admittedLate.push(`${status} ${text}`)
            if (wasDeleted) return
            await delay(PAUSE_MS)
          }
        }),
      )
      await until('the token to be used everywhere', () => (served > 60 ? true : undefined))
      const deleted = await changing.server.api('DELETE', `/api/token/${id}`)
      isDeleted = true
      assert.equal(deleted.status, 200)
      await Promise.all(load)
      assert.deepEqual(admittedLate, [])
    }
  })

  it('apply a change of a channel, an alias and a setting before the 200', async () => {
    const { model, channels } = await resources.serve('sim-words-4')
    const { key } = await resources.newToken({ unlimited_quota: true })
    for (const member of fleet.members) assert.equal((await chat(member, key, model)).status, 200)
    await resources.must(c.server.api('PUT', '/api/channel/', { id: channels[0], status: 2 }))
    for (const member of fleet.members) assert.equal((await chat(member, key, model)).status, 404)
    await resources.must(b.server.api('PUT', '/api/channel/', { id: channels[0], status: 1 }))
    await resources.must(b.server.api('POST', '/api/alias/', { name: 'another-name', target: model }))
    for (const member of fleet.members) assert.equal((await chat(member, key, 'another-name')).status, 200)
  })

  it('serve the channels of an import when the command ends', async () => {
    const config = join(newDirectory(), 'config.yaml')
    writeFileSync(
      config,
      `model_list:\n  - {model_name: imported, litellm_params: {model: openai/sim-words-4, api_base: ${simulator?.url}/v1, api_key: k}}\n`,
    )
    const { code, stderr } = await runHere(['import', 'litellm', '--config', config], {
      env: settingsOf({ dataDir: a.dataDir, databaseUrl: fleet.databaseUrl }),
    })
    assert.equal(code, 0, stderr)
    await resources.must(a.server.api('POST', '/api/price/', { model: 'imported', per_call: 0.01 }))
    const { key } = await resources.newToken({ unlimited_quota: true })
    for (const member of fleet.members) {
      const { status, text } = await chat(member, key, 'imported')
      assert.equal(status, 200, text)
    }
  })

  it('respond with 202 while a node is cut off, which fences itself and catches up when it is back', async () => {
    const { model } = await resources.serve('sim-words-4')
    const { id, key } = await resources.newToken({ unlimited_quota: true })
    const burst = (member: FleetMember, options?: RetryOptions) =>
      Promise.all(Array.from({ length: 12 }, () => chat(member, key, model, options)))
    // What the node refuses behind its fence is what this test waits for.
    const behindFence: RetryOptions = { expectedRefusal: 'ledger_unavailable' }
    for (const member of fleet.members) await burst(member)
    c.proxy.set('hang')
    // Its caches still admit the token: the change must not be reported as complete.
    assert.ok((await burst(c, behindFence)).some(({ status }) => status === 200))
    const headers = { 'idempotency-key': 'delete-once' }
    let isDone = false
    // The response is 202 if the fence is later than 25 s; a repeat then waits again.
    const finished = until('the change to be complete', async () => {
      const reply = await a.server.api('DELETE', `/api/token/${id}`, undefined, { headers })
      if (reply.status === 202) return undefined
      isDone = true
      return reply
    })
    // It is refused by the fence before the change is complete.
    await until('the node to refuse the token', async () => {
      const wasDone = isDone
      const { status, text } = await chat(c, key, model, behindFence)
      if (status === 503 && text.includes('ledger_unavailable')) return true
      assert.ok(!wasDone, `admitted after the response: ${status} ${text}`)
      return undefined
    })
    const reply = await finished
    assert.equal(reply.status, 200, reply.text)
    const states = (await nodes(a)).map(({ state }) => state)
    assert.equal(states.filter(state => state === 'fenced').length, 2, states.join())
    c.proxy.set('pass')
    await until('the node to be back', async () => {
      const { status, text } = await chat(c, key, model)
      assert.notEqual(status, 200, text)
      return status === 401 ? true : undefined
    })
    const repeated = await a.server.api('DELETE', `/api/token/${id}`, undefined, { headers })
    assert.equal(repeated.status, 200, repeated.text)
    await until('all nodes to be up', async () =>
      (await nodes(b)).every(({ state }) => state === 'up') ? true : undefined,
    )
  })

  it('do not wait for a node that has stopped, and wait for one that was killed until it is fenced', async () => {
    const d = await fleet.startMember()
    assert.equal((await nodes(a)).length, 5)
    await d.server.stop()
    assert.equal((await nodes(a)).length, 4)
    const e = await fleet.startMember(d.dataDir)
    await e.server.kill()
    const { id } = await resources.newToken({ unlimited_quota: true })
    assert.equal((await a.server.api('DELETE', `/api/token/${id}`)).status, 200)
    const f = await fleet.startMember(d.dataDir)
    await until('its nodes to be up again', async () => {
      const list = await nodes(a)
      return list.length === 5 && list.every(({ state }) => state === 'up') ? true : undefined
    })
    await f.server.stop()
  })
})

describe('a fleet with a long fence', () => {
  let fleet: TestFleet
  before(async () => {
    fleet = await startFleet(2, FENCE)
  })
  after(() => fleet?.close())

  it('reports the nodes that have not confirmed after 25 s, and the end to a repeat of the change', async () => {
    const [a, b] = fleet.members as [FleetMember, FleetMember]
    b.proxy.set('hang')
    const headers = { 'idempotency-key': 'change-once' }
    const change = () => a.server.api('PUT', '/api/setting/', { attempts: 4 }, { headers })
    const resetRoot = (dataDir: string) =>
      runHere(['admin', 'reset-password', 'root'], {
        env: settingsOf({ dataDir, databaseUrl: fleet.databaseUrl, env: { SLUICE_SECRET: SECRET } }),
      })
    // Commands wait for the nodes too, through the socket of a gateway and without one.
    const commands = Promise.all([resetRoot(a.dataDir), resetRoot(newDirectory())])
    const first = await change()
    assert.equal(first.status, 202, first.text)
    const { confirmed, waiting } = first.body.data.nodes
    assert.deepEqual(
      { success: first.body.success, confirmed, count: waiting.length },
      { success: true, confirmed: 0, count: 1 },
    )
    const outcomes = await commands
    const { data: nodesThen } = (await a.server.api('GET', '/api/node/')).body
    const isFenced = nodesThen.some(({ state }: { state: string }) => state === 'fenced')
    for (const { code, stderr } of outcomes) {
      assert.equal(code, 0, stderr)
      // On a slow machine the command starts so late that the node is fenced before 25 s are over.
      if (!isFenced || stderr !== '')
        assert.match(
          stderr,
          /^sluice: these nodes do not respond [^\n]*: [\w-]+ \(until [^\n]* at the latest\)\n$/,
        )
    }
    const second = await change()
    assert.equal(second.status, 200, second.text)
    b.proxy.set('pass')
    await until('the node to be back', async () => {
      const { code, stderr } = await resetRoot(newDirectory())
      assert.equal(code, 0, stderr)
      const { data } = (await a.server.api('GET', '/api/node/')).body
      const isApplied = (node: { applied: number; position: number }) => node.applied >= node.position
      const isUp = data.every(({ state }: { state: string }) => state === 'up')
      return isUp && stderr === '' && data.every(isApplied) ? true : undefined
    })
  })
})
