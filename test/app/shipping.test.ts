import assert from 'node:assert/strict'
import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { type Simulator, startSimulator } from '../../simulator/server.ts'
import { LOG_TYPE } from '../../src/domain/log.ts'
import { EMPTY_LOG } from '../../src/store/usage/logs.ts'
import { oneEngine } from '../support/gateway.ts'
import { type LineReceiver, startLineReceiver } from '../support/line-receiver.ts'
import {
  lookInto,
  newDirectory,
  newGround,
  type Server,
  type ServerOptions,
  startServer,
  until,
} from '../support/process.ts'
import { createFurnisher } from '../support/relay.ts'

const PROMPT = 'a canary prompt 8841'

const chatWith =
  (server: Server, key: string) =>
  (model: string): Promise<string | null> =>
    server
      .api(
        'POST',
        '/v1/chat/completions',
        { model, messages: [{ role: 'user', content: PROMPT }] },
        { token: key },
      )
      .then(({ headers }) => headers.get('x-request-id'))

for (const engine of oneEngine('postgres'))
  describe(`records shipped from ${engine} (docs/reference/shipping.md: Streams)`, () => {
    let simulator: Simulator | undefined
    let receiver: LineReceiver
    let ground: ServerOptions
    let server: Server
    let key: string
    let model: string

    const settings = () => ({
      SLUICE_SHIP_USAGE: `${receiver.url}/usage`,
      SLUICE_SHIP_AUDIT: `${receiver.url}/audit`,
      SLUICE_SHIP_HEADERS: 'authorization=Splunk%20canary',
    })
    const start = async () => {
      server = await startServer({ ...ground, env: settings() })
      return server
    }
    const shipped = (path: string) => receiver.lines(path)
    const idsOf = (path: string) => shipped(path).map(({ id }) => id)
    const untilShipped = (requestId: string | null) =>
      until('the usage row', () => shipped('/usage').find(line => line.request_id === requestId))

    before(async () => {
      simulator = await startSimulator()
      receiver = await startLineReceiver()
      ground = await newGround(engine)
      await start()
      const furnisher = createFurnisher(server.api, simulator.url)
      ;({ model } = await furnisher.serve('sim-words-4', {}, { per_call: 0.01 }))
      ;({ key } = await furnisher.newToken({ unlimited_quota: true }))
    })
    after(async () => {
      await server?.stop()
      await simulator?.close()
      await receiver?.close()
    })

    it('are usage rows with an id, as administrators get them, without prompts', async () => {
      const row = await untilShipped(await chatWith(server, key)(model))
      const { items } = (await server.api('GET', `/api/log/?request_id=${row.request_id}`)).body.data
      assert.deepEqual({ ...row, other: JSON.stringify(row.other) }, items[0])
      const [post] = receiver.posts
      assert.equal(post?.headers['content-type'], 'application/x-ndjson')
      assert.equal(post?.headers.authorization, 'Splunk canary')
      assert.ok(!JSON.stringify(receiver.posts).includes(PROMPT))
    })

    it('are audit records with their place in the chain', async () => {
      const record = await until('the record', () =>
        shipped('/audit').find(({ action }) => action === 'token.create'),
      )
      assert.equal(record.id, record.seq)
      const { items } = (await server.api('GET', '/api/audit/?action=token.create')).body.data
      const { id: _id, ...fields } = record
      assert.deepEqual(fields, items[0])
    })

    it('wait in the store while the receiver refuses them or the gateway is stopped, and arrive once', async () => {
      receiver.answer(401)
      const refused = await chatWith(server, key)(model)
      const before = receiver.requests()
      await until('a refusal', () => (receiver.requests() > before ? true : undefined))
      await server.kill()
      await start()
      const later = await chatWith(server, key)(model)
      receiver.answer(200)
      await untilShipped(later)
      assert.equal(shipped('/usage').filter(line => line.request_id === refused).length, 1)
      for (const path of ['/usage', '/audit']) {
        const ids = idsOf(path)
        assert.equal(new Set(ids).size, ids.length)
        assert.deepEqual(
          ids,
          ids.toSorted((a, b) => a - b),
        )
      }
    })

    it('go on after a row of several rejected requests that a clock that was ahead has dated', async () => {
      const { id } = await lookInto(ground, ({ db }) =>
        db
          .insertInto('logs')
          .values({
            ...EMPTY_LOG,
            ...{
              created_time: Math.floor(Date.now() / 1000) + 86_400,
              type: LOG_TYPE.error,
              user_id: 1,
              requests: 3,
            },
          })
          .returning('id')
          .executeTakeFirstOrThrow(),
      )
      const later = await chatWith(server, key)(model)
      await until('the later row', () => shipped('/usage').find(line => line.request_id === later), 10_000)
      assert.equal(shipped('/usage').filter(line => line.id === id)[0]?.requests, 3)
    })

    it('begin with those that are written after the first start with the setting', async () => {
      const { items } = (await server.api('GET', '/api/audit/?p=1&page_size=100')).body.data
      assert.deepEqual(idsOf('/audit').length, items.length - (Math.min(...idsOf('/audit')) - 1))
    })
  })

describe('records of two gateways with one database', () => {
  it('are shipped by one of them, and by the other one when it stops', async () => {
    const simulator = await startSimulator()
    const receiver = await startLineReceiver()
    const env = {
      SLUICE_SHIP_USAGE: `${receiver.url}/usage`,
      SLUICE_SECRET: 'a1b2c3d4e5f6a7b8c9d0e1f2a3b4c5d6e7f8',
    }
    const first = await newGround('postgres', env)
    const one = await startServer({ ...first, env })
    const other = await startServer({ ...first, dataDir: join(newDirectory(), 'data'), env })
    try {
      const furnisher = createFurnisher(one.api, simulator.url)
      const { model } = await furnisher.serve('sim-words-2')
      const { key } = await furnisher.newToken({ unlimited_quota: true })
      const sent: (string | null)[] = []
      for (let i = 0; i < 6; i++)
        for (const server of [one, other]) sent.push(await chatWith(server, key)(model))
      const shipped = () => receiver.lines('/usage').map(({ request_id }) => request_id)
      await until('all rows', () => (sent.every(id => shipped().includes(id)) ? true : undefined))
      await one.stop()
      const last = await chatWith(other, key)(model)
      await until('the last row', () => (shipped().includes(last) ? true : undefined))
      assert.equal(new Set(shipped()).size, shipped().length)
    } finally {
      await one.stop()
      await other.stop()
      await simulator.close()
      await receiver.close()
    }
  })
})

describe('the lines of requests (docs/reference/shipping.md: Streams)', () => {
  it('of all workers are shipped to a file that only its owner can read', async () => {
    const file = join(newDirectory(), 'requests.jsonl')
    const server = await startServer({
      dataDir: newDirectory(),
      env: { SLUICE_SHIP_REQUESTS: `file:${file}`, SLUICE_WORKERS: '2' },
    })
    const chat = chatWith(server, `sk-${'0'.repeat(48)}`)
    const sent = await Promise.all(Array.from({ length: 20 }, () => chat('any')))
    await server.stop()
    const lines = readFileSync(file, 'utf8').trimEnd().split('\n')
    const requests = lines.map(line => JSON.parse(line))
    assert.deepEqual(requests.map(({ request_id }) => request_id).sort(), sent.toSorted())
    for (const { status, code, time, path } of requests)
      assert.deepEqual(
        [status, code, typeof time, path],
        [401, 'invalid_api_key', 'string', '/v1/chat/completions'],
      )
    assert.equal(statSync(file).mode & 0o777, 0o600)
  })

  it('are dropped and counted if the file cannot be written, and requests are not affected', async () => {
    const server = await startServer({
      dataDir: newDirectory(),
      env: { SLUICE_SHIP_REQUESTS: `file:${join(newDirectory(), 'missing', 'x.jsonl')}`, SLUICE_LOG: 'info' },
    })
    const chat = chatWith(server, `sk-${'0'.repeat(48)}`)
    await chat('any')
    await until('the warning', () =>
      server.lines().find(({ signal, reason }) => signal === 'requests' && reason === 'ENOENT'),
    )
    assert.ok(await chat('any'))
    assert.equal((await server.stop()).code, 0)
  })
})
