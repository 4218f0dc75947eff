import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { describe, it } from 'node:test'
import { freePort } from './free-port.ts'

describe('a free port', () => {
  it('is drawn once, and a server can listen there again and again', async t => {
    const { random } = Math
    const draws = [0.25, 0.25]
    t.mock.method(Math, 'random', () => draws.shift() ?? random())
    const ports = [await freePort(), await freePort()]
    assert.equal(new Set(ports).size, 2)
    for (const port of [...ports, ...ports]) {
      const server = createServer().listen(port, '127.0.0.1')
      await once(server, 'listening')
      server.close()
      await once(server, 'close')
    }
  })
})
