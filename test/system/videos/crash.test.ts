import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import { type Simulator, startSimulator } from '../../../simulator/server.ts'
import { usdText } from '../../../src/domain/money.ts'
import { retryingFetch } from '../../support/client.ts'
import { type EngineName, oneEngine } from '../../support/gateway.ts'
import { createDatabase } from '../../support/postgres.ts'
import { newDirectory, type Server, type ServerOptions, startServer, until } from '../../support/process.ts'

const PROVIDER_KEY = 'a-provider-key-0001'
/** Between two polls of a job, by whichever worker (docs/reference/videos.md: Video polling). */
const MIN_PAUSE_MS = 2_000

async function newGround(engine: EngineName, env: Readonly<Record<string, string>>): Promise<ServerOptions> {
  const dataDir = join(newDirectory(), 'data')
  const databaseUrl = engine === 'postgres' ? (await createDatabase()).url : undefined
  return { dataDir, databaseUrl, env: { SLUICE_VIDEO_DOUBT_S: '20', ...env } }
}

/** A model that the simulator serves, and a token for it. */
async function addContent(
  { api }: Server,
  simulator: Pick<Simulator, 'url'>,
  model: string,
): Promise<string> {
  const channel = { name: model, type: 1, key: PROVIDER_KEY, base_url: simulator.url, models: [model] }
  const responses = [
    await api('POST', '/api/channel/', { mode: 'single', channel }),
    await api('POST', '/api/price/', { model, per_call: 0.001 }),
    await api('POST', '/api/token/', { name: 'app', unlimited_quota: true }),
  ]
  for (const { status, text } of responses) assert.equal(status, 200, text)
  return responses[2]?.body.data.key
}

type JobReport = { readonly prompt: string; readonly looks: number; readonly least_pause_ms: number | null }

const jobsAt = async ({ url }: Simulator) =>
  ((await (await retryingFetch(`${url}/sim/videos`)).json()) as { jobs: JobReport[] }).jobs

const untilEnded = (server: Server, id: string, token: string) =>
  until(`the end of ${id}`, async () => {
    const { body } = await server.api('GET', `/v1/videos/${id}`, undefined, { token })
    return body.status === 'completed' || body.status === 'failed' ? body : undefined
  })

for (const engine of oneEngine('postgres')) {
  describe(`video jobs of a gateway that is killed, on ${engine}`, () => {
    let server: Server | undefined
    const simulators: Simulator[] = []
    after(async () => {
      await server?.kill()
      for (const { close } of simulators) await close()
    })

    async function newSimulator(): Promise<Simulator> {
      const simulator = await startSimulator()
      simulators.push(simulator)
      return simulator
    }

    it('are charged for the video that is found, and the others of the request stay in suspense', async t => {
      const jobs: { readonly id: string; readonly [field: string]: unknown }[] = []
      let submissions = 0
      const provider = createServer(async (request, response) => {
        for await (const _chunk of request);
        response.setHeader('content-type', 'application/json')
        const job = jobs.find(({ id }) => request.url?.includes(id))
        if (job) return void response.end(JSON.stringify({ ...job, status: 'completed' }))
        if (request.method !== 'POST') return void response.end(JSON.stringify({ data: jobs }))
        submissions += 1
        // Only the first of the four calls is answered, and creates a job.
        if (submissions > 1) return
        const created_at = Math.floor(Date.now() / 1000)
        const facts = { object: 'video', status: 'queued', model: 'sora-2', prompt: 'four' }
        jobs.push({ id: 'video_1', ...facts, created_at, seconds: '4', size: '1280x720' })
        response.end(JSON.stringify(jobs[0]))
      })
      provider.listen(0, '127.0.0.1')
      await once(provider, 'listening')
      t.after(() => {
        provider.close()
        provider.closeAllConnections()
      })
      const { port } = provider.address() as AddressInfo
      const ground = await newGround(engine, {})
      server = await startServer(ground)
      const model = 'sora-2'
      const token = await addContent(server, { url: `http://127.0.0.1:${port}` }, model)
      // It gets no response: the gateway is killed.
      const submission = server
        .api('POST', '/v1/videos', { model, prompt: 'four', n: 4 }, { token })
        .catch(() => {})
      // The first one has been answered by then.
      await until('the second call', async () => submissions > 1 || undefined)
      await server.kill()
      await submission
      server = await startServer(ground)
      const { api } = server
      const charged = await until('the charge', async () => {
        const { body } = await api('GET', '/api/ledger/suspense?p=1&page_size=10')
        return body.data?.total === 2 ? body.data.items : undefined
      })
      const PRICE = 1_000_000
      assert.deepEqual(
        charged.map(({ cost, closed_as }: { cost: string; closed_as: string | null }) => [cost, closed_as]),
        [
          [usdText(3 * PRICE), null],
          [usdText(PRICE), 'charge'],
        ],
      )
      const { body } = await api('GET', '/api/user/self')
      assert.equal(body.data.used_quota, PRICE / 2_000)
      await server.kill()
      server = undefined
    })

    it('continue where they were, and a repeated request gets its first response', async () => {
      const simulator = await newSimulator()
      const ground = await newGround(engine, {})
      server = await startServer(ground)
      const model = 'sim-video-lasts-3000'
      const token = await addContent(server, simulator, model)
      const reply = await server.api('POST', '/v1/videos', { model, prompt: 'goes on' }, { token })
      assert.equal(reply.status, 200, reply.text)

      const hanging = 'sim-video-hang'
      const other = await addContent(server, simulator, hanging)
      const requestOptions = { token: other, headers: { 'idempotency-key': 'across-the-crash' } }
      const body = { model: hanging, prompt: 'asked once' }
      const cut = server.api('POST', '/v1/videos', body, requestOptions).catch(() => undefined)
      await until('the provider to take the job', async () =>
        (await jobsAt(simulator)).some(({ prompt }) => prompt === 'asked once') ? true : undefined,
      )
      await server.kill()
      await cut

      server = await startServer(ground)
      assert.equal((await untilEnded(server, reply.body.id, token)).status, 'completed')
      const recoveredJob = await until('the lost job to be found', async () => {
        const again = await server?.api('POST', '/v1/videos', body, requestOptions)
        return again?.status === 200 ? again.body : undefined
      })
      assert.equal((await untilEnded(server, recoveredJob.id, other)).status, 'completed')
      const jobs = await jobsAt(simulator)
      assert.equal(jobs.filter(({ prompt }) => prompt === 'asked once').length, 1)
      const listed = await server.api('GET', '/api/video/?page_size=50')
      assert.deepEqual(
        listed.body.data.items.map(({ cost }: { cost: string }) => cost),
        ['0.001', '0.001'],
      )
      const suspense = await server.api('GET', '/api/ledger/suspense/?open=true')
      assert.equal(suspense.body.data.total, 0)
      assert.equal((await server.stop()).code, 0)
      server = undefined
    })

    it('are polled by one of two workers at a time', async () => {
      const simulator = await newSimulator()
      const ground = await newGround(engine, { SLUICE_WORKERS: '2' })
      server = await startServer(ground)
      const model = 'sim-video-never'
      const token = await addContent(server, simulator, model)
      const { api } = server
      for (let index = 0; index < 6; index++) {
        const reply = await api('POST', '/v1/videos', { model, prompt: `job ${index}` }, { token })
        assert.equal(reply.status, 200, reply.text)
      }
      const jobs = await until('several polls of each job', async () => {
        const reports = await jobsAt(simulator)
        return reports.every(({ looks }) => looks >= 4) ? reports : undefined
      })
      assert.equal(jobs.length, 6)
      // The pause begins when a poll has ended, so it is never shorter. Two uncoordinated workers would poll in between.
      for (const { least_pause_ms } of jobs)
        assert.ok(Number(least_pause_ms) >= MIN_PAUSE_MS, `polled again after ${least_pause_ms} ms`)
      await server.stop()
      server = undefined
    })
  })
}
