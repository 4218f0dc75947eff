import assert from 'node:assert/strict'
import { randomInt } from 'node:crypto'
import { join } from 'node:path'
import { describe, it, type TestContext } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { startSimulator } from '../../../simulator/server.ts'
import { ENGINES, type EngineName } from '../../support/gateway.ts'
import {
  launch,
  newDirectory,
  newGround,
  type ServerOptions,
  settingsOf,
  startServer,
  untilSessionsEnded,
  verifyThroughSocket,
} from '../../support/process.ts'
import { createRandomRequests } from '../../support/random-requests.ts'
import { createDraw } from '../../support/random-writes.ts'
import { createJudge, killBy, untilAllAnswer, type Way } from '../../support/relay-campaign.ts'
import { LAWS } from '../../support/relay-laws.ts'

const isCampaign = process.env.SLUICE_CAMPAIGN !== undefined
/** Other tests that run with every change kill a single worker: the points and the random writes. */
const WORKERS = isCampaign ? [1, 3] : [2]
const ALL_KILLS = Number(process.env.SLUICE_KILLS ?? (isCampaign ? 200 : 4))
const KILLS = Math.ceil(ALL_KILLS / (ENGINES.length * WORKERS.length))
/** Set it to repeat a run; fixed unless a campaign draws a random one. */
const SEED = Number(process.env.SLUICE_SEED ?? (isCampaign ? randomInt(2 ** 31) : 20_250_102))
/** How many responses a round gets before the kill, and how long after the last of them it follows. */
const MOST_ANSWERS = isCampaign ? 250 : 40
const MOST_DELAY_MS = 60
/** About the duration of a start: kills happen at any point of it. */
const START_MS = 1_000

const NOTHING_LOST = 'whatever a provider counted is in the books, paid or in doubt'
const NOTHING_TWICE = 'no request has two entries or two usage rows, and each has both with the same cost'
const NOTHING_HELD = 'nothing is held or leased when nothing runs'

/** The median and the maximum of some durations: printed, never asserted. */
function spread(what: string, times: readonly number[]): Record<string, number> {
  const sorted = times.toSorted((a, b) => a - b)
  return {
    [`${what}: p50`]: Math.round(sorted[Math.floor(sorted.length / 2)] ?? 0),
    [`${what}: most`]: Math.round(sorted.at(-1) ?? 0),
  }
}

function tell(t: TestContext, name: string, figures: Readonly<Record<string, number>>): void {
  const line = `${name}, seed ${SEED}: ${Object.entries(figures)
    .map(([what, figure]) => `${what} ${figure}`)
    .join(', ')}`
  t.diagnostic(line)
  if (isCampaign) console.log(line)
}

/** Kills, restarts and checks, repeatedly. */
async function campaign(t: TestContext, engine: EngineName, workers: number): Promise<void> {
  const draw = createDraw(SEED + workers)
  const countFile = join(newDirectory(), 'count')
  const simulator = await startSimulator({ countFile })
  t.after(simulator.close)
  const ground: ServerOptions = {
    ...(await newGround(engine)),
    env: { SLUICE_WORKERS: String(workers), SLUICE_DRAIN_S: '2', SLUICE_OUTAGE_S: '2' },
  }
  let server = await startServer(ground)
  t.after(() => server.kill())
  const randomRequests = await createRandomRequests(draw, server, simulator.url)
  const ways: readonly Way[] = workers === 1 ? ['all'] : ['worker', 'worker', 'supervisor', 'all']
  /** From a start until it is ready, and from the end of a worker until its successor is ready. */
  const startMs: number[] = []
  const replaceMs: number[] = []
  let kills = 0
  const { read, judge } = createJudge(ground, randomRequests, countFile)

  for (let round = 1; round <= KILLS; round++) {
    const way = draw.pick(ways)
    const at = `after kill ${round} (${way}), seed ${SEED}`
    const load = randomRequests.start(server.url)
    await load.answered(draw.whole(1, MOST_ANSWERS))
    await delay(draw.whole(0, MOST_DELAY_MS))
    const killedMs = performance.now()
    const mustStart = await killBy(way, server, draw, workers)
    const killed = new Date()
    kills += 1
    await load.stop()
    if (mustStart) {
      // Some are killed again while they start: recovery itself must tolerate it.
      if (draw.whole(1, 3) === 1) {
        const starting = launch(['start'], { env: settingsOf(ground) })
        await delay(draw.whole(START_MS / 4, START_MS))
        starting.signal('SIGKILL')
        await starting.ended
        kills += 1
      }
      const startedMs = performance.now()
      server = await startServer(ground)
      startMs.push(performance.now() - startedMs)
      await untilSessionsEnded(ground, killed)
      // No request has been sent yet: recovery alone has released everything.
      assert.deepEqual(LAWS[NOTHING_HELD]?.(await read()), [], at)
    } else {
      await untilAllAnswer(server, randomRequests.payers[0]?.tokenId ?? 0)
      replaceMs.push(performance.now() - killedMs)
    }
    await judge(at)
    const books = await verifyThroughSocket(ground)
    assert.ok(books.ok, `${at}: ${books.lines.join('\n')}`)
    await randomRequests.refill(server.api)
  }

  // Open suspense is visible to administrators (docs/reference/money.md: Invariants of the books).
  const suspense = await server.api('GET', '/api/ledger/suspense?page_size=1')
  const { length: doubted } = (await read()).doubts
  assert.equal(suspense.body.data.total, doubted)
  assert.equal((await server.stop()).code, 0)
  await simulator.close()
  const accounts = await judge(`after the last, seed ${SEED}`)
  const { told: outcomes, entries, doubts, lines, logs } = accounts
  const endings = Map.groupBy(outcomes, ({ ending }) => ending)
  tell(t, `${engine}, ${workers} worker(s)`, {
    kills,
    requests: outcomes.length,
    ...Object.fromEntries([...endings].map(([ending, each]) => [ending, each.length])),
    entries: entries.length,
    'recovered of those': logs.filter(({ other }) => other.includes('"recovered"')).length,
    doubts: doubts.length,
    'lines of the provider': lines.length,
    lost: LAWS[NOTHING_LOST]?.(accounts).length ?? Number.NaN,
    double: LAWS[NOTHING_TWICE]?.(accounts).length ?? Number.NaN,
    ...spread('ms from start to ready', startMs),
    ...(workers === 1 ? {} : spread('ms until a worker was replaced', replaceMs)),
  })
}

for (const engine of ENGINES)
  describe(`kill -9 under load on ${engine} (docs/reference/money.md: Crash recovery)`, () => {
    for (const workers of WORKERS)
      it(`leaves a ledger that agrees with clients and provider, with ${workers} worker(s)`, t =>
        campaign(t, engine, workers))
  })
