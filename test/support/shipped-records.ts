import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { type Simulator, startSimulator } from '../../simulator/server.ts'
import { LOG_TYPE } from '../../src/domain/log.ts'
import { EMPTY_LOG } from '../../src/store/usage/logs.ts'
import { oneEngine } from './engines.ts'
import { type LineReceiver, startLineReceiver } from './line-receiver.ts'
import { lookInto, newGround, type Server, type ServerOptions, until } from './process.ts'
import { createResources } from './relay.ts'

const PROMPT = 'a canary prompt 8841'

export const chatWith =
  (server: Pick<Server, 'api'>, key: string) =>
  (model: string): Promise<string | null> =>
    server
      .api(
        'POST',
        '/v1/chat/completions',
        { model, messages: [{ role: 'user', content: PROMPT }] },
        { token: key },
      )
      .then(({ headers }) => headers.get('x-request-id'))

type RunningGateway = Pick<Server, 'api'> & {
  /** Ends it regularly. */
  stop(): Promise<unknown>
  /** Ends it in the middle of the suite: regularly, or as a power failure would. */
  interrupt(): Promise<unknown>
}

/** The suite of records that a gateway, which is started with these options, ships. */
export function describeShippedRecords(startOn: (options: ServerOptions) => Promise<RunningGateway>): void {
  for (const engine of oneEngine('postgres'))
    describe(`records shipped from ${engine} (docs/reference/shipping.md: Streams)`, () => {
      let simulator: Simulator | undefined
      let receiver: LineReceiver
      let ground: ServerOptions
      let server: RunningGateway
      let key: string
      let model: string

      const settings = () => ({
        SLUICE_SHIP_USAGE: `${receiver.url}/usage`,
        SLUICE_SHIP_AUDIT: `${receiver.url}/audit`,
        SLUICE_SHIP_HEADERS: 'authorization=Splunk%20canary',
      })
      const start = async () => {
        server = await startOn({ ...ground, env: settings() })
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
        const resources = createResources(server.api, simulator.url)
        ;({ model } = await resources.serve('sim-words-4', {}, { per_call: 0.01 }))
        ;({ key } = await resources.newToken({ unlimited_quota: true }))
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
        await server.interrupt()
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
        await until('the later row', () => shipped('/usage').find(line => line.request_id === later))
        assert.equal(shipped('/usage').filter(line => line.id === id)[0]?.requests, 3)
      })

      it('begin with those that are written after the first start with the setting', async () => {
        const { items } = (await server.api('GET', '/api/audit/?p=1&page_size=100')).body.data
        assert.deepEqual(idsOf('/audit').length, items.length - (Math.min(...idsOf('/audit')) - 1))
      })
    })
}
