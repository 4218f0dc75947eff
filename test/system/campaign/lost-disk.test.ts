import assert from 'node:assert/strict'
import { randomInt } from 'node:crypto'
import { readdirSync, rmSync } from 'node:fs'
import { loadavg } from 'node:os'
import { join } from 'node:path'
import { describe, it, type TestContext } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { Pool } from 'undici'
import { startSimulator } from '../../../simulator/server.ts'
import { type FleetMember, SHORT_FENCE, startFleet } from '../../support/fleet.ts'
import { createApi } from '../../support/gateway.ts'
import { lookInto, run, settingsOf, until, verifyThroughSocket } from '../../support/process.ts'
import { createDraw } from '../../support/random-writes.ts'
import { createResources } from '../../support/relay.ts'

const isCampaign = process.env.SLUICE_CAMPAIGN !== undefined
const KILLS = Number(process.env.SLUICE_KILLS ?? (isCampaign ? 20 : 1))
const SEED = Number(process.env.SLUICE_SEED ?? (isCampaign ? randomInt(2 ** 31) : 20_250_105))
const CLIENTS = isCampaign ? 16 : 4
/** A process that has just started is slower for some seconds, and ships later. */
const LEAST_ANSWERS = isCampaign ? 500 : 20
const MOST_DELAY_MS = isCampaign ? 400 : 100
/** Between two requests of a client. 0 saturates the machine. */
const PAUSE_MS = Number(process.env.SLUICE_PAUSE_MS ?? 60)
const USD_PER_REQUEST = 0.001
const PASSWORD = 'a long password'

type Answer = { readonly requestId: string; readonly atMs: number }

const median = (values: readonly number[]) =>
  values.toSorted((one, other) => one - other)[Math.floor(values.length / 2)] ?? 0

/** Sends requests until the gateway is gone. Returns the requests that clients got an answer to. */
function load(url: string, key: string, model: string) {
  const pool = new Pool(url, { connections: CLIENTS, allowH2: false })
  const answers: Answer[] = []
  let isOver = false
  const client = async () => {
    while (!isOver)
      try {
        const response = await pool.request({
          method: 'POST',
          path: '/v1/chat/completions',
          headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
          body: JSON.stringify({ model, messages: [{ role: 'user', content: 'Hi' }] }),
        })
        await response.body.text()
        if (response.statusCode === 200)
          answers.push({ requestId: String(response.headers['x-request-id']), atMs: performance.now() })
        if (PAUSE_MS > 0) await delay(PAUSE_MS)
      } catch {
        // The gateway was killed.
        return
      }
  }
  const done = Promise.all(Array.from({ length: CLIENTS }, client))
  return {
    answers,
    async stop(): Promise<void> {
      isOver = true
      await done
      await pool.destroy()
    },
  }
}

async function campaign(t: TestContext): Promise<void> {
  const draw = createDraw(SEED)
  const simulator = await startSimulator()
  t.after(simulator.close)
  const fleet = await startFleet(1, { ...SHORT_FENCE, SLUICE_WORKERS: '1' })
  t.after(() => fleet.close())
  const observer = fleet.members[0] as FleetMember
  const { api, url } = observer.server
  const { must, serve } = createResources(api, simulator.url)
  const { model } = await serve('sim-words-2', {}, { per_call: USD_PER_REQUEST })
  // A user with limited quota: others have no leases, and so no bound.
  await must(api('POST', '/api/user/', { username: 'payer', password: PASSWORD, quota: 500_000_000 }))
  const signedIn = await api(
    'POST',
    '/api/user/login',
    { username: 'payer', password: PASSWORD },
    { token: null },
  )
  const cookie = (signedIn.headers.get('set-cookie') ?? '').split(';')[0] ?? ''
  const { key } = await must(
    createApi(url, '')(
      'POST',
      '/api/token/',
      { name: 'app', unlimited_quota: true },
      {
        token: null,
        headers: { cookie, 'sec-fetch-site': 'same-origin' },
      },
    ),
  )
  const lostMs: number[] = []
  const lostRequests: number[] = []
  const rates: number[] = []
  const lostUsdOf = new Map<string, number>()

  for (let kill = 1; kill <= KILLS; kill++) {
    const victim = await fleet.startMember()
    const nodeId = readdirSync(join(victim.dataDir, 'nodes'))[0] as string
    const startedMs = performance.now()
    const { answers, stop } = load(victim.server.url, key, model)
    await until('answers', () => (answers.length >= LEAST_ANSWERS ? true : undefined))
    await delay(draw.whole(0, MOST_DELAY_MS))
    const killedMs = performance.now()
    await victim.server.kill()
    rmSync(victim.dataDir, { recursive: true, force: true })
    await stop()
    // A statement that the node had sent may still be executed.
    await delay(500)
    const settled = await lookInto({ dataDir: '', databaseUrl: fleet.databaseUrl }, async ({ db }) => {
      const rows = await db
        .selectFrom('entries')
        .select('request_id')
        .where('chain', '=', `node:${nodeId}`)
        .where('kind', '=', 'settle')
        .execute()
      return new Set(rows.map(row => row.request_id))
    })
    const lost = answers.filter(({ requestId }) => !settled.has(requestId))
    lostRequests.push(lost.length)
    lostMs.push(lost.length === 0 ? 0 : killedMs - Math.min(...lost.map(({ atMs }) => atMs)))
    rates.push((answers.length * 1_000) / (killedMs - startedMs))
    lostUsdOf.set(nodeId, lost.length * USD_PER_REQUEST)
    if (isCampaign)
      console.log(
        `kill ${kill}: ${lost.length} of ${answers.length} lost, ${Math.round(lostMs.at(-1) ?? 0)} ms`,
      )
  }

  const env = settingsOf({ dataDir: observer.dataDir, databaseUrl: fleet.databaseUrl })
  const boundsUsd: number[] = []
  for (const [nodeId, lostUsd] of lostUsdOf) {
    await until('the node to be fenced', async () => {
      const nodes: { id: string; state: string }[] = await must(api('GET', '/api/node/'))
      return nodes.find(({ id }) => id === nodeId)?.state === 'fenced' ? true : undefined
    })
    const { code, stdout, stderr } = await run(['node', 'retire', nodeId, '--json'], { env })
    assert.equal(code, 0, stderr)
    const retired = JSON.parse(stdout) as { leased: string }
    boundsUsd.push(Number(retired.leased))
    assert.ok(lostUsd <= Number(retired.leased), `${nodeId} lost ${lostUsd}, the bound is ${retired.leased}`)
  }
  const books = await verifyThroughSocket(observer)
  assert.ok(books.ok, books.lines.join('\n'))
  const line = `lost disks, seed ${SEED}: ${KILLS} kills at ${Math.round(median(rates))} requests a second, load of the machine ${Math.round(loadavg()[0] ?? 0)}; lost ms median ${Math.round(
    median(lostMs),
  )}, max ${Math.round(Math.max(...lostMs))}; lost requests median ${median(lostRequests)}, max ${Math.max(
    ...lostRequests,
  )}; bound of retire median $${median(boundsUsd).toFixed(3)}, lost at most $${Math.max(...lostUsdOf.values()).toFixed(3)}`
  t.diagnostic(line)
  if (isCampaign) console.log(line)
}

describe('a node that is killed and whose disk is lost (docs/operating/fleet.md: A node is lost)', () => {
  it(`has lost no more than its retirement says (${KILLS} kills)`, campaign)
})
