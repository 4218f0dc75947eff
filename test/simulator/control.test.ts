import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { isLoopback } from '../../simulator/control.ts'
import { FAULTS } from '../../simulator/faults.ts'
import { type Simulator, startSimulator } from '../../simulator/server.ts'

const KEY = 'sk-simulator-control-test-1234'
const OTHER_KEY = 'sk-simulator-control-test-5678'
const CHAT = '/v1/chat/completions'

let simulator: Simulator

before(async () => {
  simulator = await startSimulator()
})
after(() => simulator.close())

type Report = {
  total: number
  counts: { path: string; key_hint: string; requests: number }[]
  last: {
    method: string
    path: string
    key_hint: string
    model: string | null
    fault: string | null
    headers: Record<string, string>
  }[]
}

const report = async () => (await (await fetch(`${simulator.url}/sim/requests`)).json()) as Report
const switchTo = (body: unknown) =>
  fetch(`${simulator.url}/sim/faults`, {
    method: 'POST',
    body: typeof body === 'string' ? body : JSON.stringify(body),
  })

async function ask(path: string, body: unknown, headers: Record<string, string> = {}): Promise<Response> {
  const response = await fetch(simulator.url + path, {
    method: 'POST',
    headers: { authorization: `Bearer ${KEY}`, ...headers },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  })
  await response.clone().text()
  return response
}
const chat = (model: string, headers?: Record<string, string>) =>
  ask(CHAT, { model, messages: [{ role: 'user', content: 'Hello' }] }, headers)

describe('the fault for all requests', () => {
  after(() => switchTo({ fault: null }))

  it('makes a provider fail and recover', async () => {
    assert.equal((await chat('gpt-4o')).status, 200)
    assert.deepEqual(await (await switchTo({ fault: 'status-500' })).json(), { fault: 'status-500' })
    assert.equal((await chat('gpt-4o')).status, 500)
    assert.equal((await chat('sim-small')).status, 500)
    assert.deepEqual(await (await switchTo({ fault: null })).json(), { fault: null })
    assert.equal((await chat('gpt-4o')).status, 200)
  })

  it('takes precedence over the faults that requests select', async () => {
    await switchTo({ fault: 'status-503' })
    assert.equal((await chat('sim-status-418')).status, 503)
    assert.equal((await chat('gpt-4o', { 'x-sim-fault': 'status-418' })).status, 503)
  })

  it('affects every path, and requests that would be refused', async () => {
    await switchTo({ fault: 'status-502' })
    const models = await fetch(`${simulator.url}/v1/models`, { headers: { authorization: `Bearer ${KEY}` } })
    const keyless = await fetch(simulator.url + CHAT, { method: 'POST', body: '{}' })
    const nowhere = await ask('/v1/nothing', {})
    const malformed = await ask(CHAT, '{')
    assert.deepEqual(
      [models, keyless, nowhere, malformed].map(response => response.status),
      [502, 502, 502, 502],
    )
  })

  it('does not affect the control path itself, which shows the current and possible values', async () => {
    await switchTo({ fault: 'hang' })
    const body = await (await fetch(`${simulator.url}/sim/faults`)).json()
    assert.deepEqual(body, { fault: 'hang', known: Object.keys(FAULTS) })
  })

  for (const [name, body, status] of [
    ['an unknown fault', { fault: 'nonsense' }, 400],
    ['a number out of bounds', { fault: 'status-999' }, 400],
    ['no fault', {}, 400],
    ['a number', { fault: 500 }, 400],
    ['no JSON', '{', 400],
  ] as const) {
    it(`stays unchanged after ${name}`, async () => {
      await switchTo({ fault: 'status-500' })
      assert.equal((await switchTo(body)).status, status)
      assert.equal((await chat('gpt-4o')).status, 500)
    })
  }

  it('is not available under other names or methods', async () => {
    assert.equal((await fetch(`${simulator.url}/sim/nothing`)).status, 404)
    assert.equal((await fetch(`${simulator.url}/sim/faults`, { method: 'DELETE' })).status, 405)
    assert.equal((await fetch(`${simulator.url}/sim/requests`, { method: 'POST' })).status, 405)
  })

  it('is available to this machine only', () => {
    for (const address of ['127.0.0.1', '127.8.8.8', '::1', '::ffff:127.0.0.1']) {
      assert.equal(isLoopback(address), true, address)
    }
    for (const address of ['10.0.0.1', '1.127.0.1', '::ffff:10.0.0.1', 'fe80::1', '', undefined]) {
      assert.equal(isLoopback(address), false, String(address))
    }
  })
})

describe('the received requests', () => {
  it('are counted by path and key', async () => {
    const countsOf = ({ counts }: Report, path: string) =>
      Object.fromEntries(
        counts.filter(each => each.path === path).map(each => [each.key_hint, each.requests]),
      )
    const start = await report()
    await chat('gpt-4o')
    await chat('gpt-4o')
    await chat('gpt-4o', { authorization: `Bearer ${OTHER_KEY}` })
    await ask('/v1/embeddings', { model: 'gpt-4o', input: 'Hello' })
    await fetch(simulator.url + CHAT, { method: 'POST', body: '{}' })
    const end = await report()
    const [before, now] = [countsOf(start, CHAT), countsOf(end, CHAT)]
    assert.equal(end.total - start.total, 5)
    assert.equal((now['1234'] ?? 0) - (before['1234'] ?? 0), 2)
    assert.equal((now['5678'] ?? 0) - (before['5678'] ?? 0), 1)
    assert.equal((now[''] ?? 0) - (before[''] ?? 0), 1)
    assert.deepEqual(countsOf(end, '/v1/embeddings'), { '1234': 1 })
  })

  it('are shown with model, fault and headers, but without their keys', async () => {
    const headers = {
      'x-client-request-id': 'attempt-7',
      'x-api-key': 'another-secret-abcd',
      cookie: 'a=b; id=wxyz',
    }
    await chat('sim-status-500', headers)
    const response = await fetch(`${simulator.url}/sim/requests`)
    const text = await response.text()
    const last = (JSON.parse(text) as Report).last.at(-1)
    assert.equal(last?.method, 'POST')
    assert.equal(last?.path, CHAT)
    assert.equal(last?.key_hint, '1234')
    assert.equal(last?.model, 'sim-status-500')
    assert.equal(last?.fault, 'status-500')
    assert.equal(last?.headers['x-client-request-id'], 'attempt-7')
    assert.equal(last?.headers.authorization, 'Bearer …1234')
    assert.equal(last?.headers['x-api-key'], '…abcd')
    assert.equal(last?.headers.cookie, '…wxyz')
    for (const secret of [KEY, 'another-secret', 'a=b']) assert.ok(!text.includes(secret), secret)
  })

  it('are shown with the model even when they are refused, if it can be read', async () => {
    await ask(CHAT, { model: 'gpt-refused' })
    await ask(CHAT, '{"model":')
    const models = (await report()).last.slice(-2).map(({ model, fault }) => ({ model, fault }))
    assert.deepEqual(models, [
      { model: 'gpt-refused', fault: null },
      { model: null, fault: null },
    ])
  })

  it('are limited to the last fifty, in order of arrival', async () => {
    for (let at = 0; at < 60; at += 1) await ask(CHAT, { model: `model-${at}` })
    const { last } = await report()
    assert.deepEqual(
      last.map(({ model }) => model),
      Array.from({ length: 50 }, (_, at) => `model-${at + 10}`),
    )
  })

  it('exclude control requests', async () => {
    const { total } = await report()
    await switchTo({ fault: null })
    assert.equal((await report()).total, total)
  })
})
