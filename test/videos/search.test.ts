import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, before, describe, it } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { ENGINES } from '../support/gateway.ts'
import { until } from '../support/process.ts'
import { openRelay, type Relay } from '../support/relay.ts'

const PROMPT = 'A calm lake'
/** What one video costs, in units. */
const VIDEO = 250_000

type Reply = 'cut' | { readonly afterMs: number }

async function textOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks).toString('latin1')
}

/** A provider with one account. It answers submissions as told, and its list after a while. */
async function startProvider({ replies, listMs }: { replies: Reply[]; listMs: number }) {
  const jobs: { readonly id: string; readonly [field: string]: unknown }[] = []
  let lists = 0
  const server = createServer(async (request, response) => {
    await textOf(request)
    response.setHeader('content-type', 'application/json')
    if (request.method === 'POST') {
      const reply = replies.shift() ?? { afterMs: 0 }
      if (reply === 'cut') return void request.socket.destroy()
      const created_at = Math.floor(Date.now() / 1000)
      const job = {
        id: `video_${jobs.length}`,
        object: 'video',
        status: 'queued',
        model: 'sora-2',
        created_at,
      }
      jobs.push({ ...job, prompt: PROMPT, seconds: '4', size: '1280x720' })
      await delay(reply.afterMs)
      return void response.end(JSON.stringify(jobs.at(-1)))
    }
    const job = jobs.find(({ id }) => request.url?.includes(id))
    if (job) return void response.end(JSON.stringify({ ...job, status: 'completed' }))
    lists += 1
    await delay(listMs)
    response.end(JSON.stringify({ object: 'list', data: jobs.toReversed() }))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    jobCount: () => jobs.length,
    lists: () => lists,
    close() {
      server.closeAllConnections()
      server.close()
    },
  }
}
type Provider = Awaited<ReturnType<typeof startProvider>>

for (const engine of ENGINES)
  describe(`a repetition of a video job that was not answered, on ${engine}`, () => {
    let relay: Relay
    const providers: Provider[] = []
    before(async () => {
      relay = await openRelay(engine, { SLUICE_VIDEO_DOUBT_S: '6' })
    })
    after(async () => {
      for (const { close } of providers) close()
      await relay.gateway.close()
    })

    type Story = {
      readonly replies: Reply[]
      readonly listMs?: number
      readonly channels?: number
      readonly repetition?: Readonly<Record<string, unknown>>
      beforeRepetition?(provider: Provider, channelIds: readonly number[]): Promise<unknown>
    }

    /** The first submission creates no job at the provider. Returns what was created there, and what was charged. */
    async function tell(story: Story) {
      const { replies, listMs = 0, channels = 1, repetition = {}, beforeRepetition = async () => {} } = story
      const provider = await startProvider({ replies, listMs })
      providers.push(provider)
      const model = `m-${providers.length}`
      const channelIds: number[] = []
      for (let index = 0; index < channels; index++)
        channelIds.push(
          await relay.addChannel({
            name: `${model}-${index}`,
            key: `key-${model}-${index}-0001`,
            base_url: provider.url,
            models: [model],
            model_mapping: { [model]: 'sora-2' },
            priority: 100 - index,
          }),
        )
      await relay.must(relay.api('POST', '/api/price/', { model, per_call: 0.5 }))
      const { id, key } = await relay.newToken({ unlimited_quota: true })
      const ask = (more: object) =>
        relay.api('POST', '/v1/videos', { model, prompt: PROMPT, ...more }, { token: key })
      const first = await ask({})
      assert.equal(first.status, 504, first.text)
      await beforeRepetition(provider, channelIds)
      assert.equal((await ask(repetition)).status, 200)
      await until('the end of both jobs', async () => {
        const rows = await relay.gateway.db
          .selectFrom('videos')
          .select('phase')
          .where('token_id', '=', id)
          .execute()
        return rows.every(({ phase }) => phase === 'ended') || undefined
      })
      return { jobs: provider.jobCount(), charged: (await relay.usedBy(id)) / VIDEO }
    }

    it('is not taken for the first job', async () => {
      const [more, otherChannel, race] = await Promise.all([
        tell({ replies: ['cut'], repetition: { n: 2 } }),
        tell({
          replies: ['cut'],
          channels: 2,
          beforeRepetition: (_provider, [id]) => relay.api('PUT', '/api/channel/', { id, status: 2 }),
        }),
        // The search asks for the list before the repetition, and gets it while that is being submitted.
        tell({
          replies: ['cut', { afterMs: 1_500 }],
          listMs: 800,
          beforeRepetition: provider => until('a search', async () => provider.lists() > 0 || undefined),
        }),
      ])
      assert.deepEqual(more, { jobs: 2, charged: 2 })
      assert.deepEqual(otherChannel, { jobs: 1, charged: 1 })
      assert.deepEqual(race, { jobs: 1, charged: 1 })
    })
  })
