import assert from 'node:assert/strict'
import { randomInt } from 'node:crypto'
import { join } from 'node:path'
import { describe, it, type TestContext } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { startSimulator } from '../../../simulator/server.ts'
import { retryingFetch } from '../../support/client.ts'
import {
  launch,
  newDirectory,
  newGround,
  type ServerOptions,
  settingsOf,
  startServer,
  until,
  verifyThroughSocket,
} from '../../support/process.ts'
import { startProxy, type Trouble } from '../../support/proxy.ts'
import { createRandomRequests } from '../../support/random-requests.ts'
import { createDraw } from '../../support/random-writes.ts'
import { createJudge, killBy, untilAllAnswer, type Way } from '../../support/relay-campaign.ts'

const isCampaign = process.env.SLUICE_CAMPAIGN !== undefined
const OUTAGES = Number(process.env.SLUICE_OUTAGES ?? (isCampaign ? 40 : 4))
/** Set it to repeat a run; fixed unless a campaign draws a random one. */
const SEED = Number(process.env.SLUICE_SEED ?? (isCampaign ? randomInt(2 ** 31) : 20_250_103))
const MOST_ANSWERS = isCampaign ? 250 : 60
/** How long PostgreSQL is unavailable: sometimes longer than any lease or statement timeout. */
const MOST_AWAY_MS = isCampaign ? 30_000 : 3_000
const WORKERS = 2

/** How PostgreSQL is made unavailable, and which process is killed meanwhile. */
const AWAY: readonly Trouble[] = ['cut at commit', 'stall', 'refuse', 'hang']
const MEANWHILE: readonly (Way | 'nothing')[] = ['nothing', 'worker', 'all']

async function campaign(t: TestContext): Promise<void> {
  const draw = createDraw(SEED)
  const countFile = join(newDirectory(), 'count')
  const simulator = await startSimulator({ countFile })
  t.after(simulator.close)
  const direct = await newGround('postgres')
  const url = new URL(direct.databaseUrl ?? '')
  const proxy = await startProxy(new URL(url))
  t.after(() => proxy.close())
  url.port = String(proxy.port)
  const ground: ServerOptions = {
    ...direct,
    databaseUrl: url.href,
    env: { SLUICE_WORKERS: String(WORKERS), SLUICE_DRAIN_S: '2', SLUICE_OUTAGE_S: '2' },
  }
  let server = await startServer(ground)
  t.after(() => server.kill())
  const randomRequests = await createRandomRequests(draw, server, simulator.url)
  // Read directly, not through the proxy.
  const { judge } = createJudge(direct, randomRequests, countFile)
  const outageCounts: Record<string, number> = {}
  /** How long a change had to be repeated until the store accepted it. */
  let longestRefillMs = 0

  /** One outage under load; a process is killed during it, or none. */
  async function suffer(away: Trouble, meanwhile: Way | 'nothing'): Promise<void> {
    const load = randomRequests.start(server.url)
    try {
      await load.answered(draw.whole(1, MOST_ANSWERS))
      proxy.set(away)
      await delay(draw.whole(0, MOST_AWAY_MS / 2))
      if (meanwhile === 'all') {
        await killBy('all', server, draw, WORKERS)
        await load.stop()
        // A start during the outage fails or waits: either may be killed again.
        const starting = launch(['start'], { env: settingsOf(ground) })
        await delay(draw.whole(0, MOST_AWAY_MS / 2))
        starting.signal('SIGKILL')
        await starting.ended
        proxy.set('pass')
        server = await startServer(ground)
        return
      }
      const replaced = meanwhile === 'worker' ? killBy('worker', server, draw, WORKERS) : undefined
      await delay(draw.whole(0, MOST_AWAY_MS / 2))
      proxy.set('pass')
      await replaced
      await until('the gateway to be ready again', async () =>
        (await retryingFetch(`${server.origin}/readyz`)).status === 200 ? true : undefined,
      )
      await load.answered(10)
    } finally {
      await load.stop()
    }
  }

  for (let round = 1; round <= OUTAGES; round++) {
    const away = AWAY[round % AWAY.length] ?? 'stall'
    const meanwhile = draw.pick(MEANWHILE)
    const what = `${away}, ${meanwhile}`
    const at = `after outage ${round} (${what} killed), seed ${SEED}`
    outageCounts[what] = (outageCounts[what] ?? 0) + 1
    try {
      await suffer(away, meanwhile)
      await untilAllAnswer(server, randomRequests.payers[0]?.tokenId ?? 0)
    } catch (error) {
      const errorLines = server.lines().filter(({ level }) => level === 'error' || level === 'fatal')
      throw new Error(
        `${at}; it said last: ${JSON.stringify(errorLines.slice(-5))} ${server.stderr().slice(-2_000)}`,
        {
          cause: error,
        },
      )
    }
    await judge(at)
    const books = await verifyThroughSocket(ground)
    assert.ok(books.ok, `${at}: ${books.lines.join('\n')}`)
    const refillingMs = performance.now()
    await randomRequests.refill(server.api)
    longestRefillMs = Math.max(longestRefillMs, performance.now() - refillingMs)
  }

  assert.equal((await server.stop()).code, 0)
  await simulator.close()
  const { told: outcomes, entries, doubts } = await judge(`after the last, seed ${SEED}`)
  const codes = Map.groupBy(outcomes, ({ code, ending }) => code ?? ending)
  const figures = {
    ...outageCounts,
    requests: outcomes.length,
    ...Object.fromEntries([...codes].map(([code, each]) => [code, each.length])),
    entries: entries.length,
    doubts: doubts.length,
    'ms until a change was accepted: most': Math.round(longestRefillMs),
  }
  const line = `outages, seed ${SEED}: ${Object.entries(figures)
    .map(([what, figure]) => `${what} ${figure}`)
    .join(', ')}`
  t.diagnostic(line)
  if (isCampaign) console.log(line)
}

describe('PostgreSQL that becomes unavailable under load', () => {
  it('leaves a ledger that agrees with clients and provider, whichever process is killed meanwhile', campaign)
})
