import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, before, describe, it } from 'node:test'
import { setTimeout as delay, setImmediate as nextTurn } from 'node:timers/promises'
import { oneEngine } from '../support/gateway.ts'
import { until } from '../support/process.ts'
import { jsonAnswer, startVendor } from '../support/scripted-vendor.ts'
import { INLINE_PICTURE, openVideos, type VideoRelay } from '../support/videos.ts'

const NANOS_PER_SECOND = 100_000_000

for (const engine of oneEngine('sqlite')) {
  describe(`video jobs on ${engine}`, () => {
    let relay: VideoRelay
    before(async () => {
      relay = await openVideos(engine)
    })
    after(() => relay.gateway.close())

    it('run from submission to download with the openai SDK', async () => {
      const { model } = await relay.offer('sim-video-lasts-200', { per_second: 0.1 })
      const { id: tokenId, sdk } = await relay.openAsSomebody()
      const video = await sdk.videos.create({ model, prompt: 'A calm lake', seconds: '8', size: '1280x720' })
      assert.match(video.id, /^video_[A-Za-z0-9]{24}$/)
      assert.equal(video.object, 'video')
      assert.equal(video.status, 'queued')
      assert.equal(video.progress, 0)
      assert.equal(video.seconds, '8')
      assert.equal(video.size, '1280x720')
      assert.equal(video.completed_at, null)
      const done = await relay.untilEnded(sdk, video.id)
      assert.equal(done.status, 'completed')
      assert.equal(done.progress, 1)
      assert.ok(done.completed_at)
      const listed = await sdk.videos.list()
      assert.deepEqual(
        listed.data.map(({ id }) => id),
        [video.id],
      )
      const film = Buffer.from(await (await sdk.videos.downloadContent(video.id)).arrayBuffer())
      assert.equal(film.length, 4_096)
      assert.equal(film.readUInt32BE(4_092), 4_092)
      assert.equal((await relay.rowOf(tokenId)).cost, 8 * NANOS_PER_SECOND)
    })

    it('contain the URL of the gateway, and nothing of the provider', async () => {
      const { model } = await relay.offer('sim-video', { per_call: 0.5 })
      const { key, sdk } = await relay.open()
      const { id } = await sdk.videos.create({ model, prompt: 'A lake' })
      await relay.untilEnded(sdk, id)
      const { text, body } = await relay.api('GET', `/v1/videos/${id}`, undefined, { token: key })
      assert.equal(body.url, `${relay.gateway.url}/v1/videos/${id}/content`)
      assert.equal(body.metadata.url, body.url)
      assert.ok(!text.includes(relay.upstream))
      const task = await relay.api('GET', `/v1/video/generations/${id}`, undefined, { token: key })
      assert.deepEqual(task.body, {
        code: 'success',
        message: '',
        data: { task_id: id, status: 'completed', progress: 1, url: body.url },
      })
    })

    it('are tasks for existing clients: administrators see all, others their own without the routing', async () => {
      const { model } = await relay.offer('sim-video', { per_call: 0.5 })
      const { accessToken, sdk } = await relay.openAsSomebody()
      const { id } = await sdk.videos.create({ model, prompt: 'A lake' })
      await relay.untilEnded(sdk, id)
      const list = async (path: string, token?: string) =>
        (await relay.must(relay.api('GET', path, undefined, token === undefined ? {} : { token }))).items
      const [own, ...others] = await list('/api/task/self?p=1&page_size=20', accessToken)
      assert.deepEqual(others, [])
      assert.deepEqual(
        [own.task_id, own.status, own.progress, own.quota, own.action, own.platform, own.channel_id],
        [id, 'SUCCESS', '100%', 250_000, 'generate', '', 0],
      )
      assert.equal(own.properties.origin_model_name, model)
      const [adminTask] = await list(`/api/task/?task_id=${id}&status=SUCCESS&platform=1&action=generate`)
      assert.deepEqual([adminTask.task_id, adminTask.platform], [id, '1'])
      assert.ok(adminTask.channel_id > 0)
      for (const other of ['status=FAILURE', 'status=UNKNOWN', 'platform=suno', 'platform=2', 'action=MUSIC'])
        assert.deepEqual(await list(`/api/task/?task_id=${id}&${other}`), [], other)
      const refused = await relay.api('GET', '/api/task/', undefined, { token: accessToken })
      assert.equal(refused.status, 403)
    })

    it('serve a byte range of the video if one is requested', async () => {
      const { model } = await relay.offer('sim-video', { per_call: 0.5 })
      const { key, sdk } = await relay.open()
      const { id } = await sdk.videos.create({ model, prompt: 'A lake' })
      await relay.untilEnded(sdk, id)
      const part = await fetch(`${relay.gateway.url}/v1/videos/${id}/content`, {
        headers: { authorization: `Bearer ${key}`, range: 'bytes=4-7' },
      })
      assert.equal(part.status, 206)
      assert.equal(part.headers.get('content-range'), 'bytes 4-7/4096')
      assert.equal(Buffer.from(await part.arrayBuffer()).readUInt32BE(0), 4)
      const beyond = await fetch(`${relay.gateway.url}/v1/videos/${id}/content`, {
        headers: { authorization: `Bearer ${key}`, range: 'bytes=9999-' },
      })
      assert.equal(beyond.status, 416)
      await beyond.arrayBuffer()
      const head = await fetch(`${relay.gateway.url}/v1/videos/${id}/content`, {
        method: 'HEAD',
        headers: { authorization: `Bearer ${key}` },
      })
      assert.deepEqual([head.status, head.headers.get('content-length')], [200, '4096'])
      assert.equal((await head.arrayBuffer()).byteLength, 0)
    })

    it('that fail report the reason, stay charged, and are refunded once with 20 concurrent refunds', async () => {
      const { model } = await relay.offer('sim-video-fails', { per_call: 0.25 })
      const { id: tokenId, sdk } = await relay.open()
      const { id } = await sdk.videos.create({ model, prompt: 'A lake' })
      const ended = await relay.untilEnded(sdk, id)
      assert.equal(ended.status, 'failed')
      assert.equal(ended.error?.code, 'moderation_blocked')
      const used = await relay.usedBy(tokenId)
      assert.equal(used, 125_000)
      const needed = async (token?: string) => {
        const pendingReply = relay.gateway.api('GET', '/api/attention', undefined, token ? { token } : {})
        const needs: { kind: string; name: string }[] = await relay.must(pendingReply)
        return needs.find(({ kind }) => kind === 'video_unrefunded')?.name
      }
      assert.equal(await needed(), '1')
      const { accessToken } = await relay.gateway.createUser()
      assert.equal(await needed(accessToken), undefined)
      const refunds = await Promise.all(
        Array.from({ length: 20 }, () =>
          relay.api('POST', `/api/video/${id}/refund`, { reason: 'it failed' }),
        ),
      )
      assert.equal(refunds.filter(({ status }) => status === 200).length, 1)
      assert.equal(refunds.filter(({ status }) => status === 409).length, 19)
      assert.equal(await relay.usedBy(tokenId), 0)
      assert.equal(await needed(), undefined)
      const video = await relay.must(relay.gateway.api('GET', `/api/video/${id}`))
      assert.equal(video.refund.reason, 'it failed')
      assert.match(video.refund.by, /^user:\d+$/)
      const { ok, lines } = await relay.gateway.operations.verify({})
      assert.ok(ok, lines.join('\n'))
    })

    it('that did not fail are not refunded', async () => {
      const { model } = await relay.offer('sim-video-never', { per_call: 0.25 })
      const { sdk } = await relay.open()
      const { id } = await sdk.videos.create({ model, prompt: 'A lake' })
      assert.equal((await relay.api('POST', `/api/video/${id}/refund`, { reason: 'x' })).status, 409)
    })

    it('are refunded without a reason from the administrator, with a default reason in the entry', async () => {
      const { model } = await relay.offer('sim-video-fails', { per_call: 0.25 })
      const { sdk } = await relay.open()
      const { id } = await sdk.videos.create({ model, prompt: 'A lake' })
      await relay.untilEnded(sdk, id)
      const { status, body } = await relay.api('POST', `/api/video/${id}/refund`)
      assert.deepEqual([status, body.data.refund.reason], [200, 'video job failed'])
    })

    it('are not visible to other users', async () => {
      const { model } = await relay.offer('sim-video', { per_call: 0.25 })
      const { sdk } = await relay.open()
      const { id } = await sdk.videos.create({ model, prompt: 'A lake' })
      await relay.untilEnded(sdk, id)
      const other = await relay.gateway.createUser({ quota: 500_000 })
      const { key } = await relay.newToken({}, other.accessToken)
      for (const [method, path] of [
        ['GET', `/v1/videos/${id}`],
        ['GET', `/v1/videos/${id}/content`],
        ['DELETE', `/v1/videos/${id}`],
        ['POST', `/v1/videos/${id}/remix`],
        ['GET', `/v1/video/generations/${id}`],
        ['GET', '/v1/videos/video_000000000000000000000000'],
        ['GET', '/v1/videos/..%2f'],
      ] as const) {
        const body = method === 'POST' ? { prompt: 'mine' } : undefined
        const reply = await relay.api(method, path, body, { token: key })
        assert.equal(reply.status, 404, path)
        assert.equal(reply.body.error.code, 'video_not_found')
      }
      const list = await relay.api('GET', '/v1/videos', undefined, { token: key })
      assert.deepEqual(list.body.data, [])
      const managed = await relay.api('GET', `/api/video/${id}`, undefined, { token: other.accessToken })
      assert.equal(managed.status, 404)
      const all = await relay.api('GET', '/api/video/', undefined, { token: other.accessToken })
      assert.deepEqual(all.body.data.items, [])
    })

    it('continue with the stored key when their channel is deleted', async () => {
      const { model, channel } = await relay.offer('sim-video-lasts-1500', { per_call: 0.25 })
      const { sdk } = await relay.open()
      const { id } = await sdk.videos.create({ model, prompt: 'A lake' })
      await relay.must(relay.gateway.api('DELETE', `/api/channel/${channel}`))
      assert.equal((await relay.untilEnded(sdk, id)).status, 'completed')
      const film = await (await sdk.videos.downloadContent(id)).arrayBuffer()
      assert.equal(film.byteLength, 4_096)
    })

    it('move forward only, and their progress never decreases', async () => {
      const { model } = await relay.offer('sim-video-backwards-odd-lasts-4000', { per_call: 0.25 })
      const { key, sdk } = await relay.open()
      const { id } = await sdk.videos.create({ model, prompt: 'A lake' })
      const states: { status: string; progress: number }[] = []
      for (;;) {
        const { body } = await relay.api('GET', `/v1/videos/${id}`, undefined, { token: key })
        states.push(body)
        if (body.status === 'completed') break
        await delay(150)
      }
      const order = ['queued', 'processing', 'completed']
      const places = states.map(({ status }) => order.indexOf(status))
      assert.deepEqual(places, [...places].sort())
      const progress = states.map(each => each.progress)
      assert.deepEqual(
        progress,
        [...progress].sort((a, b) => a - b),
      )
    })

    it('are polled once at a time, with any number of concurrent requests', async t => {
      const counts = { polls: 0, running: 0, most: 0 }
      const video = (status: string) =>
        JSON.stringify({ id: 'video_1', object: 'video', status, seconds: '4', size: '1280x720' })
      let status = 'queued'
      const vendor = createServer(async (request, response) => {
        for await (const _chunk of request);
        const isPoll = request.method === 'GET'
        counts.polls += isPoll ? 1 : 0
        counts.running += isPoll ? 1 : 0
        counts.most = Math.max(counts.most, counts.running)
        await nextTurn()
        counts.running -= isPoll ? 1 : 0
        response.writeHead(200, { 'content-type': 'application/json' }).end(video(status))
      }).listen(0, '127.0.0.1')
      await once(vendor, 'listening')
      t.after(() => {
        vendor.close()
        vendor.closeAllConnections()
      })
      const base_url = `http://127.0.0.1:${(vendor.address() as AddressInfo).port}`
      const { model } = await relay.offer('sora-2', { per_call: 0.25 }, { base_url })
      const { id: tokenId, key, sdk } = await relay.open()
      const { id } = await sdk.videos.create({ model, prompt: 'looked at together' })
      // As if the last poll were long ago, so that each of the twenty requests would poll again.
      await relay.gateway.db.updateTable('videos').set({ polled_ms: 0 }).where('id', '=', id).execute()
      const replies = await Promise.all(
        Array.from({ length: 20 }, () => relay.api('GET', `/v1/videos/${id}`, undefined, { token: key })),
      )
      assert.ok(replies.every(reply => reply.status === 200))
      assert.equal(counts.most, 1)
      assert.ok(counts.polls > 0 && counts.polls < replies.length, `${counts.polls} polls`)
      status = 'completed'
      await relay.untilEnded(sdk, id)
      assert.equal((await relay.rowsOf(tokenId)).length, 1)
    })

    it('for several videos are one job, with a charge for each', async () => {
      const { model } = await relay.offer('sim-video', { per_second: 0.1 })
      const { id: tokenId, key, sdk } = await relay.open()
      const reply = await relay.api(
        'POST',
        '/v1/videos',
        { model, prompt: 'three of them', n: 3, duration: 2 },
        { token: key },
      )
      assert.equal(reply.status, 200, reply.text)
      assert.equal(reply.headers.get('x-sluice-cost'), '0.6')
      await relay.untilEnded(sdk, reply.body.id)
      const { body } = await relay.api('GET', `/v1/videos/${reply.body.id}`, undefined, { token: key })
      assert.equal(body.metadata.urls.length, 3)
      const second = await fetch(body.metadata.urls[2], { headers: { authorization: `Bearer ${key}` } })
      assert.equal((await second.arrayBuffer()).byteLength, 4_096)
      assert.equal((await relay.jobsOf('three of them')).length, 3)
      assert.equal((await relay.rowOf(tokenId)).cost, 6 * NANOS_PER_SECOND)
    })

    it('are charged for the videos that were accepted, and the rest of the price is unresolved', async t => {
      let submissions = 0
      const vendor = await startVendor(() => {
        submissions += 1
        return submissions === 1
          ? jsonAnswer({ id: 'video_1', object: 'video', status: 'queued', seconds: '4', size: '1280x720' })
          : { status: 500, body: '{}' }
      })
      t.after(vendor.close)
      const price = { per_second: 0.1, image: 0.1 }
      const { model } = await relay.offer('sora-2', price, { base_url: vendor.url })
      const { id: tokenId, key } = await relay.open({ unlimited_quota: true })
      const body = { model, prompt: 'one of three', n: 3, duration: 4, image: INLINE_PICTURE }
      const reply = await relay.api('POST', '/v1/videos', body, { token: key })
      assert.equal(reply.status, 200, reply.text)
      assert.equal(reply.headers.get('x-sluice-cost'), '0.5')
      await relay.rowOf(tokenId)
      assert.deepEqual(
        (await relay.suspenseOf(tokenId)).map(({ amount }) => Number(amount)),
        [8 * NANOS_PER_SECOND],
      )
    })

    it('are deleted once they have ended, and can be remixed', async () => {
      const { model } = await relay.offer('sim-video', { per_second: 0.1 })
      const { key, sdk } = await relay.openAsSomebody()
      const { id } = await sdk.videos.create({ model, prompt: 'A lake', seconds: '8' })
      await relay.untilEnded(sdk, id)
      const remix = await sdk.videos.remix(id, { prompt: 'The same in winter' })
      assert.equal(remix.remixed_from_video_id, id)
      assert.equal(remix.seconds, '8')
      await relay.untilEnded(sdk, remix.id)
      const deleted = await sdk.videos.delete(id)
      assert.deepEqual(deleted, { id, object: 'video.deleted', deleted: true })
      assert.equal((await relay.api('GET', `/v1/videos/${id}`, undefined, { token: key })).status, 404)
      assert.deepEqual(
        (await sdk.videos.list()).data.map(each => each.id),
        [remix.id],
      )
    })

    it('whose client disconnected before a channel accepted them are not retried, and cost nothing', async () => {
      const { model } = await relay.serveVideos(['sim-latency-5000-status-429', 'sim-video'])
      const { accessToken, sdk } = await relay.openAsSomebody()
      const requestsBefore = await relay.seenInAll()
      const leaving = new AbortController()
      const pendingVideo = sdk.videos.create({ model, prompt: 'left alone' }, { signal: leaving.signal })
      await relay.untilSeen(requestsBefore + 1)
      leaving.abort()
      await assert.rejects(pendingVideo)
      const self = () => relay.must(relay.api('GET', '/api/user/self', undefined, { token: accessToken }))
      await until('nothing to be held', async () => ((await self()).held_quota === 0 ? true : undefined))
      assert.deepEqual((await sdk.videos.list()).data, [])
      assert.deepEqual(await relay.jobsOf('left alone'), [])
      assert.equal((await self()).used_quota, 0)
    })

    it('that failed are refunded also if their owner has deleted them', async () => {
      const { model } = await relay.offer('sim-video-fails', { per_call: 0.25 })
      const { accessToken, sdk } = await relay.openAsSomebody()
      const { id } = await sdk.videos.create({ model, prompt: 'A lake' })
      await relay.untilEnded(sdk, id)
      await sdk.videos.delete(id)
      const listed = async (token?: string) => {
        const pendingReply = relay.api(
          'GET',
          '/api/video/?unrefunded=true',
          undefined,
          token ? { token } : {},
        )
        return (await relay.must(pendingReply)).items.map((item: { id: string }) => item.id)
      }
      assert.ok((await listed()).includes(id))
      assert.deepEqual(await listed(accessToken), [])
      const own = await relay.api('GET', `/api/video/${id}`, undefined, { token: accessToken })
      assert.equal(own.status, 404)
      const refund = () => relay.api('POST', `/api/video/${id}/refund`)
      assert.deepEqual([(await refund()).status, (await refund()).status], [200, 409])
      const self = await relay.must(relay.api('GET', '/api/user/self', undefined, { token: accessToken }))
      assert.deepEqual([self.quota, self.used_quota], [5_000_000, 0])
      assert.ok(!(await listed()).includes(id))
    })

    it('accept an upload, and are listed page by page', async () => {
      const { model } = await relay.offer('sim-video', { per_call: 0.01 })
      const { sdk } = await relay.openAsSomebody()
      const ids: string[] = []
      for (const prompt of ['one', 'two', 'three']) {
        const png = Buffer.from(
          'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNoAAAAggCBd81ytgAAAABJRU5ErkJggg==',
          'base64',
        )
        const input_reference = new File([new Uint8Array(png)], 'first.png', { type: 'image/png' })
        ids.push((await sdk.videos.create({ model, prompt, input_reference })).id)
      }
      const listed: string[] = []
      for await (const video of sdk.videos.list({ limit: 2 })) listed.push(video.id)
      assert.deepEqual(listed, ids.toReversed())
    })

    it('whose submission got no response are searched for, found, and charged once', async () => {
      const { model } = await relay.offer('sim-video-hang', { per_call: 0.5 }, { setting: FAST })
      const { id: tokenId, key, sdk } = await relay.open()
      const reply = await relay.api('POST', '/v1/videos', { model, prompt: 'found again' }, { token: key })
      assert.equal(reply.status, 504)
      assert.equal(reply.body.error.code, 'upstream_timeout')
      assert.equal(reply.headers.get('x-should-retry'), 'false')
      const id = reply.headers.get('x-sluice-video-id') ?? ''
      const token = await relay.must(relay.gateway.api('GET', `/api/token/${tokenId}`))
      assert.ok(token.held_quota > 0 || token.used_quota > 0)
      assert.equal((await relay.untilEnded(sdk, id)).status, 'completed')
      assert.equal(await relay.usedBy(tokenId), 250_000)
      assert.deepEqual(await relay.suspenseOf(tokenId), [])
      assert.equal((await relay.jobsOf('found again')).length, 1)
    })

    it('whose submission got no response and that are not found have failed, with an unresolved charge', async () => {
      const { model } = await relay.offer('sim-video-status-500', { per_call: 0.5 })
      const { id: tokenId, key, sdk } = await relay.open()
      const reply = await relay.api('POST', '/v1/videos', { model, prompt: 'lost' }, { token: key })
      assert.equal(reply.status, 504)
      const id = reply.headers.get('x-sluice-video-id') ?? ''
      const ended = await relay.untilEnded(sdk, id)
      assert.equal(ended.status, 'failed')
      assert.equal(ended.error?.code, 'upstream_timeout')
      assert.equal(await relay.usedBy(tokenId), 0)
      const doubts = await relay.suspenseOf(tokenId)
      assert.deepEqual(
        doubts.map(({ amount }) => Number(amount)),
        [500_000_000],
      )
      const refund = () => relay.api('POST', `/api/video/${id}/refund`, { reason: 'x' })
      assert.equal((await refund()).status, 409)
      const resolution = { action: 'charge', reason: 'the provider billed it' }
      await relay.must(relay.gateway.api('POST', `/api/ledger/suspense/${doubts[0]?.id}`, resolution))
      assert.equal(await relay.usedBy(tokenId), 250_000)
      assert.deepEqual([(await refund()).status, (await refund()).status], [200, 409])
      assert.equal(await relay.usedBy(tokenId), 0)
    })

    it('fail over only if the first channel has not accepted them', async () => {
      for (const fault of ['status-401', 'status-402', 'status-403', 'status-404', 'status-429']) {
        const { model } = await relay.serveVideos([`sim-video-${fault}`, 'sim-video'])
        const { id: tokenId, sdk } = await relay.open()
        const { id } = await sdk.videos.create({ model, prompt: fault })
        assert.equal((await relay.untilEnded(sdk, id)).status, 'completed')
        assert.equal((await relay.jobsOf(fault)).length, 1)
        assert.deepEqual(await relay.suspenseOf(tokenId), [])
      }
      const { model } = await relay.serveVideos(['sim-video-status-503', 'sim-video'])
      const { key } = await relay.open()
      const reply = await relay.api('POST', '/v1/videos', { model, prompt: 'stays' }, { token: key })
      assert.equal(reply.status, 504)
      assert.deepEqual(await relay.jobsOf('stays'), [])
    })

    it('that are rejected cost nothing and leave nothing behind', async () => {
      const { model } = await relay.offer('sim-video-status-400', { per_call: 0.5 })
      const { id: tokenId, key, sdk } = await relay.openAsSomebody()
      const reply = await relay.api('POST', '/v1/videos', { model, prompt: 'refused' }, { token: key })
      assert.equal(reply.status, 400)
      assert.equal(reply.headers.get('x-should-retry'), 'false')
      assert.equal((await relay.rowOf(tokenId)).cost, 0)
      assert.deepEqual((await sdk.videos.list()).data, [])
    })

    describe('with an Idempotency-Key', () => {
      const withIdempotencyKey = (name: string) => ({ headers: { 'idempotency-key': name } })

      it('are created once by 50 concurrent requests, and the response is repeated afterwards', async () => {
        const { model } = await relay.offer('sim-video-slow-300', { per_call: 0.5 })
        const { id: tokenId, key } = await relay.open({ remain_quota: 50_000_000 })
        /** On a busy machine the lease may take longer than a second: 503, and clients retry. */
        async function ask(prompt: string): ReturnType<typeof relay.api> {
          const reply = await relay.api(
            'POST',
            '/v1/videos',
            { model, prompt },
            { token: key, ...withIdempotencyKey('fifty') },
          )
          return reply.status === 503 ? ask(prompt) : reply
        }
        const replies = await Promise.all(Array.from({ length: 50 }, () => ask('fifty at once')))
        const good = replies.filter(({ status }) => status === 200)
        const conflicts = replies.filter(({ status }) => status === 409)
        const others = replies.filter(({ status }) => status !== 200 && status !== 409)
        assert.deepEqual(
          others.map(({ text }) => text),
          [],
        )
        assert.ok(good.length >= 1)
        assert.equal(new Set(good.map(({ body }) => body.id)).size, 1)
        assert.ok(conflicts.every(({ body }) => body.error.code === 'idempotency_conflict'))
        const again = await ask('fifty at once')
        assert.deepEqual([again.body, again.headers.get('idempotency-replayed')], [good[0]?.body, 'true'])
        assert.equal((await ask('another body')).status, 409)
        assert.equal((await relay.jobsOf('fifty at once')).length, 1)
        assert.equal(await relay.usedBy(tokenId), 250_000)
      })

      it('are stored per user and path, and a refusal before anything was sent is not stored', async () => {
        const { model } = await relay.offer('sim-video', { per_call: 0.01 })
        const { key } = await relay.open()
        const ask = (path: string, body: object, token = key) =>
          relay.api('POST', path, body, { token, ...withIdempotencyKey('mine') })
        assert.equal((await ask('/v1/videos', { model, prompt: 'x', n: 0 })).status, 400)
        const empty = { token: key, headers: { 'idempotency-key': '' } }
        assert.equal((await relay.api('POST', '/v1/videos', { model, prompt: 'x' }, empty)).status, 400)
        const first = await ask('/v1/videos', { model, prompt: 'x' })
        assert.equal(first.status, 200)
        const task = await ask('/v1/video/generations', { model, prompt: 'x' })
        assert.notEqual(task.body.id, first.body.id)
        assert.equal(task.body.task_id, task.body.id)
        const other = await relay.gateway.createUser({ quota: 500_000 })
        const theirs = await relay.newToken({}, other.accessToken)
        assert.notEqual((await ask('/v1/videos', { model, prompt: 'x' }, theirs.key)).body.id, first.body.id)
      })
    })
  })
}

const FAST = { timeouts: { first_byte_ms: 300 } }
