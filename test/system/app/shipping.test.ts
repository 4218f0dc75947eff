import assert from 'node:assert/strict'
import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { newDirectory, startServer, until } from '../../support/process.ts'
import { chatWith, describeShippedRecords } from '../../support/shipped-records.ts'

describeShippedRecords(async options => {
  const server = await startServer(options)
  return { api: server.api, stop: () => server.stop(), interrupt: () => server.kill() }
})

describe('the lines of requests (docs/reference/shipping.md: Streams)', () => {
  it('of all workers are shipped to a file that only its owner can read', async () => {
    const file = join(newDirectory(), 'requests.jsonl')
    const server = await startServer({
      dataDir: newDirectory(),
      env: { SLUICE_SHIP_REQUESTS: `file:${file}`, SLUICE_WORKERS: '2' },
    })
    const chat = chatWith(server, `sk-${'0'.repeat(48)}`)
    const requestIds = await Promise.all(Array.from({ length: 20 }, () => chat('any')))
    await server.stop()
    const lines = readFileSync(file, 'utf8').trimEnd().split('\n')
    const requests = lines.map(line => JSON.parse(line))
    assert.deepEqual(requests.map(({ request_id }) => request_id).sort(), requestIds.toSorted())
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
