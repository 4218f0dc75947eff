import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { startSimulator } from '../../../simulator/server.ts'
import { retryingFetch } from '../../support/client.ts'
import { openClient } from '../../support/http1.ts'
import {
  lookInto,
  newGround,
  type Server,
  startServer,
  until,
  verifyThroughSocket,
} from '../../support/process.ts'
import { askOnce, CLOSES, post, question } from '../../support/raw-chat.ts'
import { createResources } from '../../support/relay.ts'
import { untilLogged } from '../../support/start.ts'

/** Waits until this many answers in a row report that the gateway is not ready: every worker answers some of them. */
const untilNotReady = (server: Server, times: number) =>
  until('/readyz to be 503', async () => {
    for (let turn = 0; turn < times; turn++)
      if (
        (await retryingFetch(`${server.origin}/readyz`, { headers: { connection: 'close' } })).status !== 503
      )
        return undefined
    return true
  })

for (const [engine, workers] of [
  ['sqlite', 1],
  ['postgres', 2],
] as const)
  describe(`SIGTERM on ${engine} with ${workers} worker(s) and a drain delay`, () => {
    it('serves new requests until a second signal, then finishes streams, returns leases and exits 0', async test => {
      const simulator = await startSimulator()
      test.after(simulator.close)
      const ground = await newGround(engine, { SLUICE_WORKERS: String(workers), SLUICE_DRAIN_DELAY_S: '300' })
      const server = await startServer(ground)
      const resources = createResources(server.api, simulator.url)
      const { model } = await resources.serve(['sim-words-2'])
      const { model: slow } = await resources.serve(['sim-words-40-pace-100'])
      const { key } = await resources.newToken()
      const stream = await openClient(server.port)
      stream.socket.write(post(key, question(slow, { stream: true, max_tokens: 100 })))
      await until('an event', () => (stream.text().includes('data: ') ? true : undefined))

      server.signal('SIGTERM')
      await untilLogged(server, 'Draining')
      await untilNotReady(server, 8 * workers)
      for (let turn = 0; turn < 4 * workers; turn++)
        assert.match(await askOnce(server.port, post(key, question(model))), CLOSES)
      assert.ok((await verifyThroughSocket(ground)).ok)
      assert.ok(!stream.isClosed())

      server.signal('SIGTERM')
      await untilLogged(server, 'Shutting down')
      await until('the port to be closed', () =>
        openClient(server.port).then(
          ({ socket }) => void socket.destroy(),
          () => true,
        ),
      )
      await stream.closed
      assert.match(stream.text(), /data: \[DONE\]\n\n\r\n0\r\n\r\n$/)
      assert.equal((await server.ended).code, 0)
      const leased = await lookInto(ground, ({ db }) =>
        db.selectFrom('accounts').select(['kind', 'held']).where('held', '<>', 0).execute(),
      )
      assert.deepEqual(leased, [])
    })
  })
