import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { isSigned, type Receiver, startReceiver } from '../../support/alert-receiver.ts'
import { childrenOf, newDirectory, type Server, startServer, until } from '../../support/process.ts'

describe('alerts of a gateway with 2 workers', () => {
  let server: Server
  let receiver: Receiver
  before(async () => {
    receiver = await startReceiver()
    server = await startServer({ dataDir: newDirectory(), env: { SLUICE_WORKERS: '2' } })
  })
  after(async () => {
    await server.stop()
    await receiver.close()
  })

  it('report a worker that was killed, once for all workers', async () => {
    const { body } = await server.api('POST', '/api/alert/target/', {
      name: 'Ops',
      type: 'webhook',
      url: receiver.url,
      group_seconds: 0,
    })
    const [worker] = childrenOf(server.pid)
    assert.ok(worker)
    process.kill(worker, 'SIGKILL')
    const ofWorkers = () =>
      receiver.received
        .filter(message => isSigned(message, body.data.secret))
        .flatMap(message => message.body.alerts)
        .filter(alert => alert.kind === 'worker_restarted')
    const alert = await until('the alert about the worker', () => ofWorkers()[0])
    assert.equal(alert.state, 'firing')
    assert.equal(alert.values.count, '1')
    assert.equal(alert.values.how, 'SIGKILL')
    const firing = await server.api('GET', '/api/alert/firing')
    const kinds = firing.body.data.map(({ kind }: { kind: string }) => kind)
    assert.deepEqual(
      kinds.filter((kind: string) => kind === 'worker_restarted'),
      ['worker_restarted'],
    )
    assert.equal(ofWorkers().length, 1)
  })
})
