import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { type ScriptedServer, startScriptedServer } from '../../support/hostile-provider.ts'
import { PROVIDER_KEY } from '../../support/relay.ts'
import { openVideos, type VideoRelay } from '../../support/videos.ts'

describe('a provider that redirects the gateway to another host', () => {
  let relay: VideoRelay
  let provider: ScriptedServer
  before(async () => {
    relay = await openVideos('sqlite')
    provider = await startScriptedServer(({ url = '', headers }, response) => {
      const sendJson = (body: unknown) => {
        response.writeHead(200, { 'content-type': 'application/json' })
        response.end(JSON.stringify(body))
      }
      const job = { id: 'v1', object: 'video', model: 'film', progress: 100, created_at: 1 }
      // One port under two names: two origins, for browsers and for the gateway.
      const foreign = `http://localhost:${provider.port}`
      if (url === '/v1/videos') sendJson({ ...job, status: 'queued' })
      else if (url === '/v1/videos/v1') sendJson({ ...job, status: 'completed' })
      else if (url === '/v1/videos/v1/content')
        response.writeHead(302, { location: `${foreign}/first` }).end()
      else if (url === '/first' && headers.host?.startsWith('localhost'))
        response.writeHead(302, { location: `${foreign}/second` }).end()
      else response.writeHead(200, { 'content-type': 'video/mp4' }).end('a film')
    })
  })
  after(async () => {
    await relay.gateway.close()
    await provider.close()
  })

  it('causes neither the key to be sent to that host nor a connection to a private host', async () => {
    const { model } = await relay.offer('film', { per_call: 0.5 }, { type: 1, base_url: provider.url })
    const { key, sdk } = await relay.open({ unlimited_quota: true })
    const { id } = await sdk.videos.create({ model, prompt: 'p' })
    await relay.untilEnded(sdk, id)
    const reply = await relay.api('GET', `/v1/videos/${id}/content`, undefined, { token: key })
    assert.equal(reply.status, 502, reply.text)
    assert.equal(reply.body.error.code, 'upstream_error')
    const withKey = provider.seen.filter(({ headers }) => headers.authorization?.includes(PROVIDER_KEY))
    assert.deepEqual(
      withKey.filter(({ headers }) => headers.host?.startsWith('localhost')),
      [],
    )
    assert.deepEqual(
      provider.seen.filter(({ path }) => path === '/first' || path === '/second'),
      [],
    )
  })
})
