import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { startGateway, suiteResource } from '../support/gateway.ts'
import { describeMetrics } from '../support/metrics.ts'
import { until } from '../support/process.ts'
import { suiteRelay } from '../support/relay.ts'
import { openVideos } from '../support/videos.ts'

// Two workers are in the system tests.
describeMetrics('a gateway', async env => {
  const gateway = await startGateway({ engine: 'sqlite', env })
  return { api: gateway.api, url: gateway.url, stop: gateway.close }
})

const valueIn = (text: string, name: string) =>
  Number(new RegExp(`^${name}(?:\\{\\})? (\\S+)$`, 'm').exec(text)?.[1] ?? Number.NaN)

describe('the metric of leases (docs/reference/metrics.md: Gateway)', () => {
  const relay = suiteRelay('sqlite')
  const leased = async () => valueIn((await relay.gateway.api('GET', '/metrics')).text, 'sluice_leased_usd')

  it('is what users have leased to the gateway, until the idle lease is returned', async () => {
    const { model } = await relay.serve('sim-words-4')
    const { accessToken } = await relay.gateway.createUser({ quota: 500_000 })
    const { key } = await relay.newToken({ unlimited_quota: true }, accessToken)
    assert.equal(await leased(), 0)
    const { status } = await relay.chat(key, { model, messages: [{ role: 'user', content: 'Hello' }] })
    assert.equal(status, 200)
    const amount = await leased()
    assert.ok(amount > 0 && amount <= 1, `${amount} USD`)
    await until('the return', async () => (await leased()) === 0 || undefined)
  })
})

describe('the metric of spend (docs/reference/metrics.md: Requests)', () => {
  const relay = suiteResource(
    () => openVideos('sqlite'),
    ({ gateway }) => gateway.close(),
  )
  const spend = async () =>
    valueIn((await relay.gateway.api('GET', '/metrics')).text, 'sluice_spend_usd_total')

  it('includes a video job that was found after its response', async () => {
    const setting = { timeouts: { first_byte_ms: 300 } }
    const { model, channel } = await relay.offer('sim-video-hang', { per_call: 0.5 }, { setting })
    const { key, sdk } = await relay.open()
    const before = await spend()
    const reply = await relay.api('POST', '/v1/videos', { model, prompt: 'found later' }, { token: key })
    assert.equal(reply.status, 504)
    await relay.untilEnded(sdk, reply.headers.get('x-sluice-video-id') ?? '')
    assert.equal(await spend(), before + 0.5)
    const { text } = await relay.gateway.api('GET', '/metrics')
    assert.match(
      text,
      /^sluice_requests_total\{operation="videos",status="504",code="upstream_timeout"\} 1$/m,
    )
    assert.match(
      text,
      new RegExp(`^sluice_attempts_total\\{channel="${channel}",outcome="no_response"\\} 1$`, 'm'),
    )
  })

  it('includes an unresolved charge that Root bills', async () => {
    const { model } = await relay.offer('sim-video-status-500', { per_call: 0.25 })
    const { id: tokenId, key, sdk } = await relay.open()
    const before = await spend()
    const reply = await relay.api('POST', '/v1/videos', { model, prompt: 'lost' }, { token: key })
    assert.equal(reply.status, 504)
    await relay.untilEnded(sdk, reply.headers.get('x-sluice-video-id') ?? '')
    assert.equal(await spend(), before)
    const [open] = await relay.suspenseOf(tokenId)
    const resolution = { action: 'charge', reason: 'The provider billed it.' }
    await relay.must(relay.gateway.api('POST', `/api/ledger/suspense/${open?.id}`, resolution))
    assert.equal(await spend(), before + 0.25)
  })
})
