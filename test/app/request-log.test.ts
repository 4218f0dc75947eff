import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { type Simulator, startSimulator } from '../../simulator/server.ts'
import { logLines, newDirectory, type Server, startServer, until } from '../support/process.ts'
import { createResources } from '../support/relay.ts'

describe('the log line of a request (docs/operating/monitoring.md: Logs)', () => {
  let simulator: Simulator | undefined
  let server: Server
  let resources: ReturnType<typeof createResources>

  before(async () => {
    simulator = await startSimulator()
    server = await startServer({ dataDir: newDirectory(), env: { SLUICE_LOG: 'info' } })
    resources = createResources(server.api, simulator.url)
  })
  after(async () => {
    await server?.stop()
    await simulator?.close()
  })

  const chat = (key: string, model: string) =>
    fetch(`${server.url}/v1/chat/completions?key=secret`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model, messages: [{ role: 'user', content: 'Hello' }] }),
    })
  const lineOf = (requestId: string | null) =>
    logLines(server.stdout()).find(line => line.request_id === requestId)
  const untilLine = (requestId: string | null) => until('the line', () => lineOf(requestId))

  it('has the request, its caller, channel, tokens, cost and times', async () => {
    const { model, channels } = await resources.serve('sim-words-4', {}, { per_call: 0.01 })
    const { id, key } = await resources.newToken({ unlimited_quota: true })
    const response = await chat(key, model)
    await response.text()
    const { time, ms, first_ms, level, ...line } = await untilLine(response.headers.get('x-request-id'))
    assert.deepEqual([typeof time, typeof ms, typeof first_ms, level], ['string', 'number', 'number', 'info'])
    assert.deepEqual(line, {
      request_id: response.headers.get('x-request-id'),
      method: 'POST',
      path: '/v1/chat/completions',
      status: 200,
      user_id: 1,
      token_id: id,
      model,
      channel_id: channels[0],
      prompt_tokens: line.prompt_tokens,
      completion_tokens: 4,
      cost: '0.01',
    })
  })

  it('has the code of a rejected request, also with an unknown credential', async () => {
    const { id, key } = await resources.newToken({ unlimited_quota: true })
    const knownKeyResponse = await chat(key, 'no-such-model')
    const line = await untilLine(knownKeyResponse.headers.get('x-request-id'))
    assert.deepEqual(
      [line.status, line.code, line.token_id, line.model],
      [404, 'model_not_found', id, 'no-such-model'],
    )
    const unknown = await chat(`sk-${'0'.repeat(48)}`, 'any')
    const other = await untilLine(unknown.headers.get('x-request-id'))
    assert.deepEqual([other.status, other.code, other.token_id], [401, 'invalid_api_key', undefined])
  })

  it('is that of its own request if requests alternate', async () => {
    const models = [await resources.serve('sim-words-4'), await resources.serve('sim-words-5-ü')]
    const tokens = await Promise.all(models.map(() => resources.newToken({ unlimited_quota: true })))
    for (let turn = 0; turn < 6; turn++) {
      const { id, key } = tokens[turn % 2] as (typeof tokens)[number]
      const { model, channels } = models[turn % 2] as (typeof models)[number]
      const response = await chat(key, turn === 3 ? 'no-such-model' : model)
      await response.text()
      const line = await untilLine(response.headers.get('x-request-id'))
      assert.deepEqual(
        [line.status, line.token_id, line.model, line.channel_id],
        turn === 3 ? [404, id, 'no-such-model', undefined] : [200, id, model, channels[0]],
      )
    }
  })

  it('is short, however long the path is', async () => {
    const reply = await server.api('POST', `/v1/${'x'.repeat(8_000)}`, {})
    const line = await untilLine(reply.headers.get('x-request-id'))
    assert.equal(String(line.path).length, 255)
  })

  it('is followed by a warning with the words of the provider when a key cools down', async () => {
    const { model, channels } = await resources.serve('sim-status-401')
    const { key } = await resources.newToken({ unlimited_quota: true })
    assert.equal((await chat(key, model)).status, 502)
    const line = await until('the warning', () =>
      logLines(server.stdout()).find(
        ({ channel_id, msg }) => channel_id === channels[0] && msg !== undefined,
      ),
    )
    assert.deepEqual(
      [line.level, line.msg, line.key_index, line.seconds],
      ['warn', 'A channel or key is cooling down.', 0, 30],
    )
    assert.match(String(line.reason), /^401 /)
  })

  it('is also written for the management API, with the code, and not for files of the console', async () => {
    await fetch(`${server.url}/icon.svg`)
    await fetch(`${server.url}/assets/no-such-file.js`)
    const { headers } = await server.api('GET', '/api/no-such-route')
    const line = await untilLine(headers.get('x-request-id'))
    assert.deepEqual(
      [line.method, line.path, line.status, line.code],
      ['GET', '/api/no-such-route', 404, 'not_found'],
    )
    const paths = logLines(server.stdout()).map(({ path }) => String(path))
    assert.ok(!paths.some(path => path.includes('icon.svg') || path.includes('assets')))
  })

  it('is written for no request if the setting log_requests is 0', async () => {
    await resources.must(server.api('PUT', '/api/setting/', { log_requests: 0 }))
    const response = await chat(`sk-${'0'.repeat(48)}`, 'any')
    await resources.must(server.api('PUT', '/api/setting/', { log_requests: 1 }))
    const later = await chat(`sk-${'0'.repeat(48)}`, 'any')
    await untilLine(later.headers.get('x-request-id'))
    assert.equal(lineOf(response.headers.get('x-request-id')), undefined)
  })
})
