import assert from 'node:assert/strict'
import { randomInt } from 'node:crypto'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { startSimulator } from '../../../simulator/server.ts'
import type { Store } from '../../../src/store/engine/store.ts'
import { retryingFetch } from '../../support/client.ts'
import { type EngineName, oneEngine } from '../../support/gateway.ts'
import { createDatabase } from '../../support/postgres.ts'
import {
  lookInto,
  newDirectory,
  type Server,
  type ServerOptions,
  startServer,
  until,
  verifyThroughSocket,
} from '../../support/process.ts'
import { createDraw } from '../../support/random-writes.ts'
import { WAIT_MS } from '../../support/wait.ts'

const isCampaign = process.env.SLUICE_CAMPAIGN !== undefined
const KILLS = Number(process.env.SLUICE_KILLS ?? (isCampaign ? 100 : 3))
const SEED = Number(process.env.SLUICE_SEED ?? (isCampaign ? randomInt(2 ** 31) : 20_250_101))
const AT_ONCE = 6
/** A submission takes 40 ms here, and a job a quarter of a second: kills happen at every stage. */
const MODEL = 'sim-video-latency-40-lasts-250'
const MOST_DELAY_MS = 900
const DOUBT_S = 8
const ENV = { SLUICE_VIDEO_DOUBT_S: String(DOUBT_S) }
/** A job that its provider has finished ends after the resolution period, a lease and the longest polling interval: 128 s here. */
const END_MS = 3 * WAIT_MS

async function newGround(engine: EngineName): Promise<ServerOptions> {
  const dataDir = join(newDirectory(), 'data')
  const databaseUrl = engine === 'postgres' ? (await createDatabase()).url : undefined
  return { dataDir, databaseUrl, env: ENV }
}

/** A model, its price and a token, created once: they survive the kills. */
async function addContent({ api }: Server, upstream: string): Promise<string> {
  const channel = { name: 'simulated', type: 1, key: 'a-key-0001', base_url: upstream, models: [MODEL] }
  const responses = [
    await api('POST', '/api/channel/', { mode: 'single', channel }),
    await api('POST', '/api/price/', { model: MODEL, per_call: 0.001 }),
    await api('POST', '/api/token/', { name: 'app', unlimited_quota: true }),
  ]
  for (const { status, text } of responses) assert.equal(status, 200, text)
  return responses[2]?.body.data.key
}

/** The state of every job in the store, by its prompt. */
async function jobsIn({ db }: Store) {
  const videos = await db.selectFrom('videos').selectAll().execute()
  const entries = await db.selectFrom('entries').selectAll().where('kind', '=', 'settle').execute()
  const doubts = await db.selectFrom('suspense').selectAll().where('closed_time', 'is', null).execute()
  const billed = Map.groupBy(
    entries.filter(({ amount }) => Number(amount) > 0),
    ({ request_id }) => request_id,
  )
  const open = Map.groupBy(doubts, ({ request_id }) => request_id)
  return videos.map(video => ({
    prompt: JSON.parse(video.parameters).prompt as string,
    phase: video.phase,
    status: video.status,
    billed: billed.get(video.request_id)?.length ?? 0,
    inDoubt: open.get(video.request_id)?.length ?? 0,
  }))
}

for (const engine of oneEngine('sqlite')) {
  describe(`kill -9 around video jobs on ${engine} (docs/reference/videos.md: Unresolved submissions)`, () => {
    let server: Server | undefined
    after(() => server?.kill())

    it('loses no accepted job, charges each once or leaves it unresolved, and ends every one', async t => {
      const draw = createDraw(SEED)
      const simulator = await startSimulator()
      t.after(simulator.close)
      const ground = await newGround(engine)
      server = await startServer(ground)
      const key = await addContent(server, simulator.url)
      let submittedCount = 0
      let answered = 0

      async function submitOn(url: string, isOver: () => boolean): Promise<void> {
        while (!isOver()) {
          const response = await retryingFetch(`${url}/v1/videos`, {
            method: 'POST',
            headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
            body: JSON.stringify({ model: MODEL, prompt: `job ${++submittedCount}` }),
          }).catch(() => undefined)
          if (response?.status === 200) answered += 1
          // Cut off in the middle of the response, as the kill intends.
          await response?.text().catch(() => '')
          if (response === undefined) return
        }
      }

      for (let kill = 1; kill <= KILLS; kill++) {
        let isOver = false
        const { url, kill: end } = server
        const clients = Array.from({ length: AT_ONCE }, () => submitOn(url, () => isOver))
        await setTimeout(draw.whole(30, MOST_DELAY_MS))
        await end()
        isOver = true
        await Promise.all(clients)
        server = await startServer(ground)
      }

      let rows: Awaited<ReturnType<typeof jobsIn>> = []
      const look = async (store: Store) => {
        rows = await jobsIn(store)
        return rows.every(({ phase }) => phase === 'ended') ? rows : undefined
      }
      const ended = await lookInto(ground, store =>
        until('every job to end', () => look(store), END_MS),
      ).catch(({ message }) => {
        const rowsByPhase = Object.entries(Object.groupBy(rows, ({ phase }) => phase))
        return assert.fail(
          `${message}: ${rowsByPhase.map(([phase, of]) => `${of?.length} ${phase}`).join(', ')}`,
        )
      })
      const { jobs } = (await (await retryingFetch(`${simulator.url}/sim/videos`)).json()) as {
        jobs: { prompt: string }[]
      }
      const at = `seed ${SEED}`
      const providerPrompts = new Set(jobs.map(({ prompt }) => prompt))
      assert.equal(providerPrompts.size, jobs.length, `${at}: a job was submitted twice`)
      const byPrompt = new Map(ended.map(row => [row.prompt, row]))
      const wrong = [...providerPrompts].filter(prompt => {
        const row = byPrompt.get(prompt)
        return row === undefined || row.billed + row.inDoubt !== 1
      })
      assert.deepEqual(wrong, [], `${at}: taken, and neither paid once nor once in doubt`)
      const free = ended.filter(({ prompt, billed }) => billed > 0 && !providerPrompts.has(prompt))
      assert.deepEqual(free, [], `${at}: paid, and never taken`)
      const billed = ended.filter(row => row.billed === 1).length
      assert.ok(billed >= answered, `${at}: ${answered} answered, ${billed} paid`)
      const books = await verifyThroughSocket(ground)
      assert.ok(books.ok, books.lines.join('\n'))
      const doubts = ended.filter(({ inDoubt }) => inDoubt > 0).length
      const line = `${engine}, ${at}: kills ${KILLS}, asked ${submittedCount}, answered ${answered}, taken ${providerPrompts.size}, paid ${billed}, in doubt ${doubts}`
      t.diagnostic(line)
      if (isCampaign) console.log(line)
      await server.stop()
      server = undefined
    })
  })
}
