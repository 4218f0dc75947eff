import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { startSimulator } from '../../simulator/server.ts'
import { startGateway } from '../support/gateway.ts'
import { startLineReceiver } from '../support/line-receiver.ts'
import { newDirectory, newGround, startGatewayOn, until } from '../support/process.ts'
import { createResources } from '../support/relay.ts'
import { chatWith, describeShippedRecords } from '../support/shipped-records.ts'

// A system test kills the gateway instead.
describeShippedRecords(async options => {
  const gateway = await startGatewayOn(options)
  return { api: gateway.api, stop: gateway.close, interrupt: gateway.close }
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
    const one = await startGatewayOn({ ...first, env })
    const other = await startGatewayOn({ ...first, dataDir: join(newDirectory(), 'data'), env })
    let isClosed = false
    try {
      const resources = createResources(one.api, simulator.url)
      const { model } = await resources.serve('sim-words-2')
      const { key } = await resources.newToken({ unlimited_quota: true })
      const requestIds: (string | null)[] = []
      for (let i = 0; i < 6; i++)
        for (const server of [one, other]) requestIds.push(await chatWith(server, key)(model))
      const shipped = () => receiver.lines('/usage').map(({ request_id }) => request_id)
      await until('all rows', () => (requestIds.every(id => shipped().includes(id)) ? true : undefined))
      await one.close()
      isClosed = true
      const last = await chatWith(other, key)(model)
      await until('the last row', () => (shipped().includes(last) ? true : undefined))
      assert.equal(new Set(shipped()).size, shipped().length)
    } finally {
      if (!isClosed) await one.close()
      await other.close()
      await simulator.close()
      await receiver.close()
    }
  })
})

describe('the lines of requests (docs/reference/shipping.md: Streams)', () => {
  it('are shipped to a file', async () => {
    const file = join(newDirectory(), 'requests.jsonl')
    const gateway = await startGateway({ engine: 'sqlite', env: { SLUICE_SHIP_REQUESTS: `file:${file}` } })
    const requestId = await chatWith(gateway, `sk-${'0'.repeat(48)}`)('any')
    await gateway.close()
    const lines = readFileSync(file, 'utf8').trimEnd().split('\n')
    const { request_id, status, code } = JSON.parse(lines[0] as string)
    assert.equal(lines.length, 1)
    assert.deepEqual([request_id, status, code], [requestId, 401, 'invalid_api_key'])
  })
})
