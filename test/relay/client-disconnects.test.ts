import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { after, before, describe, it } from 'node:test'
import { oneEngine } from '../support/engines.ts'
import { until } from '../support/process.ts'
import { suiteRelay } from '../support/relay.ts'

const LISTENER = `const s = require('node:net').createServer()
s.listen(0, '127.0.0.1', 1, () => console.log(s.address().port))`
/** The kernel accepts one connection more than the backlog of 1. */
const ACCEPTED = 2

/** A provider that is stopped and accepts no connections: a new connection waits. */
async function startFullHouse() {
  const child = spawn(process.execPath, ['-e', LISTENER], { stdio: ['ignore', 'pipe', 'inherit'] })
  const [bytes] = (await once(child.stdout, 'data')) as [Buffer]
  const port = Number(bytes.toString())
  child.kill('SIGSTOP')
  const waiting: Socket[] = []
  while (waiting.length < ACCEPTED) {
    const socket = connect(port, '127.0.0.1')
    await once(socket, 'connect')
    socket.on('error', () => {}) // Closed when the gateway is closed.
    waiting.push(socket)
  }
  return {
    url: `http://127.0.0.1:${port}`,
    close() {
      for (const socket of waiting) socket.destroy()
      child.kill('SIGKILL')
    },
  }
}

for (const engine of oneEngine('sqlite'))
  describe(`a client that disconnects before the upstream connection is open, on ${engine} (docs/reference/money.md: Who pays)`, () => {
    const relay = suiteRelay(engine)
    let house: Awaited<ReturnType<typeof startFullHouse>>

    before(async () => {
      house = await startFullHouse()
    })
    after(async () => {
      house.close()
    })

    it('pays nothing, because the provider never received the request', async () => {
      const { model } = await relay.serve('sim-words-4', { base_url: house.url })
      const { id, key } = await relay.newToken()
      const leaving = new AbortController()
      const pendingResponse = fetch(`${relay.gateway.url}/v1/chat/completions`, {
        method: 'POST',
        signal: leaving.signal,
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        body: JSON.stringify({ model, messages: [{ role: 'user', content: 'How are you today?' }] }),
      })
      await until('the hold', async () => {
        const { held_quota } = await relay.must(relay.api('GET', `/api/token/${id}`))
        return held_quota > 0 ? true : undefined
      })
      leaving.abort()
      await assert.rejects(pendingResponse)
      const { cost, other } = await relay.rowOf(id)
      assert.deepEqual({ cost, source: other.source }, { cost: 0, source: 'zero' })
      assert.equal(await relay.usedBy(id), 0)
      assert.deepEqual(await relay.suspenseOf(id), [])
    })
  })
