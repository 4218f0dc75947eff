import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, before, describe, it } from 'node:test'
import { createOnDemandApi } from '../../src/app/management-api.ts'

describe('the management API (docs/adr/0033-what-requests-do-not-need-is-loaded-on-demand.md)', () => {
  const failures: unknown[] = []
  let loads = 0
  let isClosed = false
  const api = createOnDemandApi(
    async () => {
      loads += 1
      if (loads === 1) throw new Error('the file is missing')
      return {
        routing: (_request, response) => void response.end('served'),
        close: async () => {
          isClosed = true
        },
      }
    },
    { error: (entry: unknown) => void failures.push(entry) },
  )
  const server = createServer(api.serve)
  let url: string
  before(async () => {
    await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
  })
  after(() => server.close())

  it('that cannot be loaded is reported, and loaded by a later request', async () => {
    assert.equal(loads, 0)
    const failed = await fetch(url)
    const body = (await failed.json()) as { code: string }
    assert.deepEqual([failed.status, body.code, failures.length], [500, 'internal_error', 1])
    const responses = await Promise.all([fetch(url), fetch(url), fetch(url)])
    for (const response of responses) assert.equal(await response.text(), 'served')
    assert.equal(await (await fetch(url)).text(), 'served')
    assert.equal(loads, 2)
    await api.close()
    assert.ok(isClosed)
  })

  it('that was never needed is not loaded to be closed', async () => {
    const unused = createOnDemandApi(() => assert.fail('loaded'), { error: () => {} })
    await unused.close()
  })
})
