import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { readConfig } from '../../src/app/config.ts'
import { describeOverServers, startGateway } from '../support/gateway.ts'
import { openClient } from '../support/http1.ts'
import { until } from '../support/process.ts'
import { askOnce, CLOSES, get, post, question } from '../support/raw-chat.ts'
import { createResources } from '../support/relay.ts'

describeOverServers('a gateway that drains', http => {
  it('is not ready, and serves requests on open and new connections, which it then closes', async () => {
    const gateway = await startGateway({ engine: 'sqlite', http })
    const { url } = await gateway.simulator()
    const resources = createResources(gateway.api, url)
    const { model } = await resources.serve('sim-words-2')
    const { key } = await resources.newToken()
    const port = Number(new URL(gateway.url).port)
    const open = await openClient(port)
    open.socket.write(post(key, question(model)))
    await until('an answer', () => (open.text().endsWith('}') ? true : undefined))
    assert.match(open.text(), /connection: keep-alive/i)
    const first = open.text().length
    gateway.startDraining()
    assert.match(await askOnce(port, get('/readyz')), /^HTTP\/1\.1 503 (?:.+\r\n)*connection: close\r\n/i)
    assert.match(await askOnce(port, post(key, question(model))), CLOSES)
    assert.match(await askOnce(port, post(key, question(model, { stream: true }))), CLOSES)
    assert.match(
      await askOnce(port, post(key, question(model), 'Expect: 100-continue\r\n')),
      /^(?:HTTP\/1\.1 100 Continue\r\n\r\n)?HTTP\/1\.1 200 OK\r\n(?:.+\r\n)*connection: close\r\n/i,
    )
    for (const path of ['/v1/models', '/api/token/', '/healthz', '/api/status'])
      assert.match(await askOnce(port, get(path)), /^HTTP\/1\.1 \d+ (?:.+\r\n)*connection: close\r\n/i, path)
    assert.ok(!open.isClosed())
    open.socket.write(post(key, question(model)))
    await open.closed
    assert.match(open.text().slice(first), CLOSES)
    await gateway.close()
  })
})

describe('SLUICE_DRAIN_DELAY_S', () => {
  it('is 0 on SQLite, 5 with DATABASE_URL, and can be set', () => {
    const delayOf = (env: Record<string, string>) => readConfig(env).drainDelayS
    assert.equal(delayOf({}), 0)
    assert.equal(delayOf({ DATABASE_URL: 'postgres://h/d' }), 5)
    assert.equal(delayOf({ DATABASE_URL: 'postgres://h/d', SLUICE_DRAIN_DELAY_S: '0' }), 0)
    assert.equal(delayOf({ SLUICE_DRAIN_DELAY_S: '7' }), 7)
  })
})
