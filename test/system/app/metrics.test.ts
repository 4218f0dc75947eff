import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { startSimulator } from '../../../simulator/server.ts'
import { retryingFetch } from '../../support/client.ts'
import { freePort } from '../../support/free-port.ts'
import { describeMetrics } from '../../support/metrics.ts'
import { childrenOf, newDirectory, startServer, until } from '../../support/process.ts'
import { createResources } from '../../support/relay.ts'

const WORKERS = 2
const REQUESTS = 12
/** A connection that a killed worker was given is never answered: another one is opened. */
const UNANSWERED_MS = 10_000

const startWorkers = (env: Readonly<Record<string, string>>) =>
  startServer({ dataDir: newDirectory(), env: { ...env, SLUICE_WORKERS: String(WORKERS) } })

describeMetrics(`${WORKERS} workers`, startWorkers)

describe(`the metrics of ${WORKERS} workers`, () => {
  it('do not fall when a worker ends', async test => {
    const simulator = await startSimulator()
    const port = await freePort()
    const server = await startWorkers({ SLUICE_METRICS_PORT: String(port) })
    test.after(async () => {
      await server.stop()
      await simulator.close()
    })
    const { serve, newToken } = createResources(server.api, simulator.url)
    const read = async () => {
      const signal = AbortSignal.timeout(UNANSWERED_MS)
      const text = await (await retryingFetch(`http://127.0.0.1:${port}/metrics`, { signal })).text()
      return (name: string) =>
        text
          .split('\n')
          .find(line => line.startsWith(`${name} `))
          ?.split(' ')
          .at(-1)
    }
    const chat = (key: string, model: string) =>
      server.api(
        'POST',
        '/v1/chat/completions',
        { model, messages: [{ role: 'user', content: 'Hello' }] },
        { token: key, headers: { connection: 'close' } },
      )
    const { model } = await serve('sim-words-4', {}, { per_call: 0.01 })
    const { key } = await newToken({ unlimited_quota: true })
    for (let i = 0; i < REQUESTS; i++) assert.equal((await chat(key, model)).status, 200)
    const NAME = 'sluice_requests_total{operation="chat",status="200",code=""}'
    const before = (await read())(NAME)
    assert.equal(before, String(REQUESTS))
    const [worker] = childrenOf(server.pid)
    process.kill(worker as number, 'SIGKILL')
    const after = await until('another worker', async () => {
      const current = await read().catch(() => undefined)
      return current?.('sluice_worker_restarts_total') === '1' ? current : undefined
    })
    assert.equal(after(NAME), before)
  })
})
