import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { startGateway } from '../../support/gateway.ts'
import {
  type ScriptedServer,
  startFilmProvider,
  startScriptedServer,
} from '../../support/hostile-provider.ts'
import { until } from '../../support/process.ts'
import { createResources } from '../../support/relay.ts'
import { openUpstream } from '../../support/upstream.ts'
import { openVideos, type VideoRelay } from '../../support/videos.ts'

const REPLICATE = 56

/** Addresses of one local port, in the spellings that a provider may use. */
const spellings = (port: number) => [
  `http://127.0.0.1:${port}/`,
  `http://0.0.0.0:${port}/`,
  `http://[::ffff:127.0.0.1]:${port}/`,
  `http://[::ffff:0.0.0.0]:${port}/`,
  `http://2130706433:${port}/`,
  `http://0x7f.1:${port}/`,
  `http://localhost:${port}/`,
  `http://localhost.:${port}/`,
]

describe('a provider that names an address of the gateway’s own network', () => {
  let relay: VideoRelay
  let inner: ScriptedServer
  let provider: ScriptedServer
  let filmUrl = ''
  let redirectTo = ''
  let model: string
  before(async () => {
    relay = await openVideos('sqlite')
    inner = await startScriptedServer((_request, response) => {
      response.writeHead(200, { 'content-type': 'video/mp4' })
      response.end('inner secret')
    })
    provider = await startFilmProvider(
      () => filmUrl,
      ({ url = '' }, response) => {
        if (url === '/film') {
          response.writeHead(200, { 'content-type': 'video/mp4' })
          response.end('a film')
        } else {
          response.writeHead(302, { location: redirectTo })
          response.end()
        }
      },
    )
    model = (await relay.offer('owner/film', { per_call: 0.5 }, { type: REPLICATE, base_url: provider.url }))
      .model
  })
  after(async () => {
    await relay.gateway.close()
    await inner.close()
    await provider.close()
  })

  async function fetchFilm() {
    const { key, sdk } = await relay.open({ unlimited_quota: true })
    const { id } = await sdk.videos.create({ model, prompt: 'p' })
    await relay.untilEnded(sdk, id)
    return relay.api('GET', `/v1/videos/${id}/content`, undefined, { token: key })
  }

  it('as the video: is not connected to, and the client does not learn the address', async () => {
    for (const address of spellings(inner.port)) {
      filmUrl = address
      const reply = await fetchFilm()
      assert.equal(reply.status, 502, `${address}: ${reply.text}`)
      assert.equal(reply.body.error.code, 'upstream_error')
      assert.ok(!reply.text.includes(String(inner.port)), reply.text)
    }
    assert.equal(inner.seen.length, 0)
  })

  it('as a redirect from the video file: is not connected to', async () => {
    filmUrl = `${provider.url}/moved`
    for (const address of spellings(inner.port)) {
      redirectTo = address
      const reply = await fetchFilm()
      assert.equal(reply.status, 502, `${address}: ${reply.text}`)
      assert.equal(reply.body.error.code, 'upstream_error')
    }
    assert.equal(inner.seen.length, 0)
  })

  it('serves video files of the channel’s own origin, also behind a redirect', async () => {
    filmUrl = `${provider.url}/film`
    assert.equal((await fetchFilm()).text, 'a film')
    filmUrl = `${provider.url}/moved`
    redirectTo = '/film'
    assert.equal((await fetchFilm()).text, 'a film')
  })

  it('an address that is not a URL is an error of the provider, not of the gateway', async () => {
    filmUrl = 'http://'
    assert.equal((await fetchFilm()).body.error.code, 'upstream_error')
  })
})

describe('a channel that was saved before private addresses were denied', () => {
  it('is no longer connected to, and the client gets a 502', async () => {
    const dataDir = mkdtempSync(join(tmpdir(), 'sluice-test-'))
    const provider = await startScriptedServer((_request, response) => response.end('{}'))
    try {
      const before = await startGateway({ engine: 'sqlite', env: { SLUICE_DATA: dataDir } })
      const resources = createResources(before.api, provider.url)
      const { model, channels } = await resources.serve('sent')
      const { key } = await resources.newToken()
      await before.close()
      const env = { SLUICE_DATA: dataDir, SLUICE_PRIVATE_UPSTREAMS: 'deny' }
      const gateway = await startGateway({ engine: 'sqlite', env })
      try {
        const body = { model, messages: [{ role: 'user', content: 'hi' }] }
        const reply = await gateway.api('POST', '/v1/chat/completions', body, { token: key })
        assert.equal(reply.status, 502, reply.text)
        assert.equal(reply.body.error.code, 'upstream_error')
        assert.doesNotMatch(reply.text, /127\.0\.0\.1/)
        const tested = await gateway.api('GET', `/api/channel/test/${channels[0]}`)
        assert.equal(tested.body.success, false)
        assert.match(tested.body.data.error, /127\.0\.0\.1 .*SLUICE_PRIVATE_UPSTREAMS=deny/)
        const listed = await gateway.api('GET', `/api/channel/fetch_models/${channels[0]}`)
        assert.equal(listed.status, 502, listed.text)
        assert.equal(provider.seen.length, 0)
      } finally {
        await gateway.close()
      }
    } finally {
      await provider.close()
      rmSync(dataDir, { recursive: true, force: true })
    }
  })
})

/** Refused under every setting. */
const NEVER_ALLOWED = [
  'http://169.254.169.254',
  'http://169.254.170.2',
  'http://0.0.0.0:8080',
  'http://0.1.2.3',
  'http://168.63.129.16',
  'http://100.100.100.200',
  'http://192.0.0.192',
  'http://[fe80::1]',
  'http://[fd00:ec2::254]',
  'http://[fd00:ec2::23]',
  'http://[fd20:ce::254]',
  'http://[::]',
  'http://[::ffff:169.254.169.254]',
  'http://[64:ff9b::a9fe:a9fe]',
  'http://[64:ff9b:1::a9fe:a9fe]',
  'http://[2002:a9fe:a9fe::]',
  'http://[2002:7f00:1::]',
  'http://[2001:0:a9fe:a9fe::1]',
  'http://[::ffff:0:a9fe:a9fe]',
  'http://[::a9fe:a9fe]',
  'http://metadata.google.internal',
  'http://metadata.google.internal.',
]
/** Refused only where the operator denies private addresses. */
const PRIVATE = [
  'http://127.0.0.1:11434',
  'http://10.1.2.3',
  'http://192.168.0.4',
  'http://172.16.0.1',
  'http://100.64.0.1',
  'http://[::1]',
  'http://[fd12:3456::1]',
  'http://[::ffff:10.0.0.1]',
  'http://[64:ff9b::7f00:1]',
  'http://localhost',
  'http://localhost.',
]
const PUBLIC = [
  'https://api.openai.com',
  'http://8.8.8.8',
  'http://[2606:4700::1111]',
  'http://[64:ff9b::808:808]',
]

describe('an address that is saved in a channel', () => {
  for (const [policy, refused, allowed] of [
    ['allow', NEVER_ALLOWED, [...PRIVATE, ...PUBLIC]],
    ['deny', [...NEVER_ALLOWED, ...PRIVATE], PUBLIC],
  ] as const)
    it(`is checked by the same rules as a connection, with SLUICE_PRIVATE_UPSTREAMS=${policy}`, async () => {
      const gateway = await startGateway({ engine: 'sqlite', env: { SLUICE_PRIVATE_UPSTREAMS: policy } })
      const save = (base_url: string) =>
        gateway.api('POST', '/api/channel/', { name: 'c', type: 1, key: 'k-1', models: ['m'], base_url })
      try {
        for (const address of refused) {
          const { status, body, text } = await save(address)
          assert.equal(status, 400, `${address}: ${text}`)
          assert.equal(body.errors[0].path, 'base_url')
        }
        for (const address of allowed) {
          const { status, text } = await save(address)
          assert.equal(status, 200, `${address}: ${text}`)
        }
      } finally {
        await gateway.close()
      }
    })
})

describe('connections to many origins', () => {
  it('leave no state once they are idle', async () => {
    const servers = await Promise.all(
      Array.from({ length: 3 }, () => startScriptedServer((_request, response) => response.end('{}'))),
    )
    const upstream = openUpstream(4)
    const timeouts = { connectMs: 5_000, firstByteMs: 5_000, idleMs: 5_000, totalMs: 5_000 }
    const get = (url: string, author: 'administrator' | 'provider') =>
      upstream.exchange({ method: 'GET', url: new URL(url), headers: {}, timeouts, isStream: false, author })
        .outcome
    try {
      for (const { url } of servers) assert.equal((await get(url, 'administrator')).kind, 'buffered')
      // The same origins, once a provider names them: the open connections are not reused for it.
      for (const { url } of servers) assert.equal((await get(url, 'provider')).kind, 'failure')
      assert.ok(upstream.originCount() >= servers.length)
      for (const server of servers) await server.close()
      await until('all origins to be removed', async () => (upstream.originCount() === 0 ? true : undefined))
    } finally {
      await upstream.close()
    }
  })
})
