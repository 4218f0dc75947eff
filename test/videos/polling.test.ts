import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, before, describe, it } from 'node:test'
import { oneEngine } from '../support/engines.ts'
import { until } from '../support/process.ts'
import { openVideos, type VideoRelay } from '../support/videos.ts'

const LEASE_MS = 90_000

const providers: Server[] = []
after(() => {
  for (const server of providers) {
    server.closeAllConnections()
    server.close()
  }
})

/** A provider that accepts every job, and responds to polls as the test scripts it. */
async function startProvider(answerLook: (request: IncomingMessage, response: ServerResponse) => void) {
  let jobCount = 0
  const server = createServer((request, response) => {
    if (request.method === 'GET') return answerLook(request, response)
    request.resume().on('end', () => {
      response.setHeader('content-type', 'application/json')
      response.end(JSON.stringify({ id: `job-${++jobCount}`, object: 'video', status: 'queued' }))
    })
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  providers.push(server)
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

for (const engine of oneEngine('postgres')) {
  describe(`polls of video jobs on ${engine}`, { concurrency: true }, () => {
    let relay: VideoRelay
    before(async () => {
      relay = await openVideos(engine)
    })
    after(() => relay.gateway.close())

    const rowOf = (id: string) =>
      relay.gateway.db.selectFrom('videos').selectAll().where('id', '=', id).executeTakeFirstOrThrow()

    const untilRow = (id: string, isSo: (row: Awaited<ReturnType<typeof rowOf>>) => boolean) =>
      until(`a job as it should be`, async () => {
        const row = await rowOf(id)
        return isSo(row) ? row : undefined
      })

    /** A job at this test's own provider. */
    async function serveAt(baseUrl: string) {
      const model = `own-${new URL(baseUrl).port}`
      await relay.addChannel({ name: model, models: [model], base_url: baseUrl })
      await relay.must(relay.gateway.api('POST', '/api/price/', { model, per_call: 0.001 }))
      return model
    }

    it('without a response from a provider delay no job of another', async () => {
      let ended = 0
      let pollCount = 0
      const url = await startProvider((_request, response) => {
        pollCount += 1
        response.on('close', () => {
          ended += 1
        })
      })
      const silent = await serveAt(url)
      const { model } = await relay.offer('sim-video', { per_call: 0.001 })
      const { sdk } = await relay.openAsSomebody()
      for (let job = 0; job < 12; job++) await sdk.videos.create({ model: silent, prompt: `job ${job}` })
      await until('as many looks as there may be', () => (pollCount === 8 ? true : undefined))
      const { id } = await sdk.videos.create({ model, prompt: 'A lake' })
      const { status } = await untilRow(id, ({ phase }) => phase === 'ended')
      assert.equal(status, 'completed')
      assert.deepEqual({ asked: pollCount, ended }, { asked: 8, ended: 0 })
    })

    it('are resumed if the same node left a lease behind', async () => {
      const { model } = await relay.offer('sim-video-lasts-2500', { per_call: 0.001 })
      const { sdk } = await relay.openAsSomebody()
      const { id } = await sdk.videos.create({ model, prompt: 'A lake' })
      const looked = await untilRow(
        id,
        ({ polled_ms, lease_until_ms }) => polled_ms > 0 && lease_until_ms === 0,
      )
      const untilMs = Date.now() + LEASE_MS
      await relay.gateway.db
        .updateTable('videos')
        .set({ lease_until_ms: untilMs, lease_by: looked.lease_by })
        .where('id', '=', id)
        .execute()
      assert.equal((await untilRow(id, ({ phase }) => phase === 'ended')).status, 'completed')
      assert.ok(Date.now() < untilMs)
    })

    it('are left to another node while its lease lasts', async () => {
      const { model } = await relay.offer('sim-video', { per_call: 0.001 })
      const { sdk } = await relay.openAsSomebody()
      const { id } = await sdk.videos.create({ model, prompt: 'leased elsewhere' })
      await relay.gateway.db
        .updateTable('videos')
        .set({ lease_until_ms: Date.now() + LEASE_MS, lease_by: 'another' })
        .where('id', '=', id)
        .execute()
      const freeVideo = await sdk.videos.create({ model, prompt: 'free' })
      await untilRow(freeVideo.id, ({ phase }) => phase === 'ended')
      assert.equal((await sdk.videos.retrieve(id)).status, 'queued')
      assert.equal((await relay.jobsOf('leased elsewhere'))[0]?.looks, 0)
    })

    it('go on when the clock that planned them was ahead and has been corrected', async () => {
      const { model } = await relay.offer('sim-video', { per_call: 0.001 })
      const { sdk } = await relay.openAsSomebody()
      const aheadMs = Date.now() + 86_400_000
      const ids = await Promise.all(
        (['next_poll_ms', 'polled_ms', 'lease_until_ms'] as const).map(async column => {
          const { id } = await sdk.videos.create({ model, prompt: `planned by ${column}` })
          await relay.gateway.db
            .updateTable('videos')
            .set({ [column]: aheadMs, lease_by: 'another' })
            .where('id', '=', id)
            .execute()
          return id
        }),
      )
      for (const id of ids)
        assert.equal((await untilRow(id, ({ phase }) => phase === 'ended')).status, 'completed')
    })

    it('are less frequent the older a job is, and still end it', async () => {
      const { model } = await relay.offer('sim-video-lasts-1000', { per_call: 0.001 })
      const { sdk } = await relay.openAsSomebody()
      const ids = await Promise.all(
        Array.from({ length: 4 }, async () => (await sdk.videos.create({ model, prompt: 'A lake' })).id),
      )
      const minuteAgo = Math.floor(Date.now() / 1000) - 60
      await relay.gateway.db
        .updateTable('videos')
        .set({ created_time: minuteAgo })
        .where('id', 'in', ids)
        .execute()
      for (const id of ids) {
        const row = await untilRow(id, ({ phase }) => phase === 'ended')
        assert.equal(row.status, 'completed')
        assert.equal(Math.floor((row.next_poll_ms - row.polled_ms) / 1000), 3)
      }
    })

    it('that fail are retried after twice the last planned interval, however late they were', async () => {
      const url = await startProvider((_request, response) => {
        response.statusCode = 503
        response.end()
      })
      const { sdk } = await relay.openAsSomebody()
      const { id } = await sdk.videos.create({ model: await serveAt(url), prompt: 'A lake' })
      const planned = ({ next_poll_ms, polled_ms }: { next_poll_ms: number; polled_ms: number }) =>
        Math.round((next_poll_ms - polled_ms) / 1000)
      const first = await untilRow(id, ({ poll_error }) => poll_error !== '')
      assert.equal(planned(first), 2)
      // As after a minute during which the gateway was stopped.
      const polled_ms = first.polled_ms - 60_000
      await relay.gateway.db
        .updateTable('videos')
        .set({ polled_ms, next_poll_ms: polled_ms + 2_000 })
        .where('id', '=', id)
        .execute()
      const second = await untilRow(id, row => row.polled_ms > first.polled_ms)
      assert.equal(planned(second), 4)
    })

    it('end a job in time also if its key can no longer be decrypted', async () => {
      const { model } = await relay.offer('sim-video-never', { per_call: 0.001 })
      const { sdk } = await relay.openAsSomebody()
      const { id } = await sdk.videos.create({ model, prompt: 'A lake' })
      const update = relay.gateway.db.updateTable('videos').where('id', '=', id)
      await update.set({ access_sealed: 'not sealed by us' }).execute()
      await untilRow(id, ({ poll_error }) => poll_error === 'The gateway could not poll the job.')
      await update
        .set({ created_time: Math.floor(Date.now() / 1000) - 2 * 86_400, next_poll_ms: 0 })
        .execute()
      const { status, error_code } = await untilRow(id, ({ phase }) => phase === 'ended')
      assert.deepEqual([status, error_code], ['failed', 'timeout'])
    })
  })
}
