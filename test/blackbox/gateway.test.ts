import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { type Simulator, startSimulator } from '../../simulator/server.ts'
import { newDirectory, type Server, startServer } from '../support/process.ts'
import { chat, models, setUpChannels } from '../support/simulated-channels.ts'

// These tests use the command line and HTTP only, so they also run on the single executable (npm run test:binary), like all of
// test/system/blackbox.

describe('a gateway as a process', () => {
  let simulator: Simulator
  let server: Server
  let token: string
  before(async () => {
    simulator = await startSimulator({})
    server = await startServer({ dataDir: join(newDirectory(), 'data') })
    token = await setUpChannels(server.api, simulator.url)
  })
  after(() => simulator.close())
  const relay = (path: string, body: unknown) => server.api('POST', path, body, { token })

  it('relays a chat', async () => {
    const { status, body, text } = await relay('/v1/chat/completions', chat(models.openai, 'hello'))
    assert.equal(status, 200, text)
    assert.ok(body.choices[0].message.content.length > 0)
  })

  it('translates a binary event stream', async () => {
    const { status, text } = await relay('/v1/messages', chat(models.bedrock, 'hello', { stream: true }))
    assert.equal(status, 200, text)
    assert.match(text, /event: message_stop/)
  })

  it('exits with 0 on SIGTERM', async () => {
    const { code, stderr } = await server.stop()
    assert.equal(code, 0, stderr)
  })
})
