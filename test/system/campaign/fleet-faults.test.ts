import assert from 'node:assert/strict'
import { randomInt } from 'node:crypto'
import { join } from 'node:path'
import { describe, it, type TestContext } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { startSimulator } from '../../../simulator/server.ts'
import { retryingFetch } from '../../support/client.ts'
import { FENCE, type FleetMember, startFleet } from '../../support/fleet.ts'
import { startKillablePostgres } from '../../support/killable-postgres.ts'
import { newDirectory, until, verifyThroughSocket } from '../../support/process.ts'
import type { Trouble } from '../../support/proxy.ts'
import { createRandomRequests } from '../../support/random-requests.ts'
import { createDraw, type Draw } from '../../support/random-writes.ts'
import { createJudge, killBy, untilAllAnswer, type Way } from '../../support/relay-campaign.ts'
import { LAWS } from '../../support/relay-laws.ts'
import { WAIT_MS } from '../../support/wait.ts'

const isCampaign = process.env.SLUICE_CAMPAIGN !== undefined
const NODES = isCampaign ? 3 : 2
const WORKERS = 2
const KILLS = Number(process.env.SLUICE_KILLS ?? (isCampaign ? 100 : 3))
const PARTITIONS = Number(process.env.SLUICE_PARTITIONS ?? (isCampaign ? 20 : 1))
/** Set it to repeat the faults of a run; fixed unless a campaign draws a random one. */
const SEED = Number(process.env.SLUICE_SEED ?? (isCampaign ? randomInt(2 ** 31) : 20_250_104))
/** Faults of one round happen under the same load, partly at the same time. */
const FAULTS_PER_ROUND = 4
const CLIENTS_PER_NODE = isCampaign ? 6 : 3
const MOST_PAUSE_MS = isCampaign ? 1_500 : 200
/** How long PostgreSQL is down, or away from one node. */
const MOST_DOWN_MS = isCampaign ? 4_000 : 300
const MOST_AWAY_MS = isCampaign ? 16_000 : 800
/** A statement on a connection that does not answer any more fails after 35 s, and is then repeated. */
const SETTLED_MS = 2 * WAIT_MS
const ENV = {
  SLUICE_WORKERS: String(WORKERS),
  SLUICE_DRAIN_S: '2',
  SLUICE_OUTAGE_S: '2',
  // In a campaign some partitions reach the fence.
  ...(isCampaign ? { SLUICE_FENCE_S: '10' } : FENCE),
}

const NOTHING_LOST = 'whatever a provider counted is in the books, paid or in doubt'
const NOTHING_TWICE = 'no request has two entries or two usage rows, and each has both with the same cost'

type Kill = { readonly kind: 'kill'; readonly what: 'worker' | 'supervisor' | 'node' | 'postgres' }
type Partition = { readonly kind: 'partition'; readonly what: Trouble }
type Fault = Kill | Partition
const KILLED: readonly Kill['what'][] = ['worker', 'node', 'postgres', 'supervisor']
const WAYS: Readonly<Record<Exclude<Kill['what'], 'postgres'>, Way>> = {
  worker: 'worker',
  supervisor: 'supervisor',
  node: 'all',
}
const CUTS: readonly Trouble[] = ['hang', 'delay', 'half-close', 'stall', 'refuse', 'cut at commit']

/** All kills and partitions, in a random order. Each kind occurs about equally often. */
function drawFaults(draw: Draw): Fault[] {
  const faults: Fault[] = [
    ...Array.from(
      { length: KILLS },
      (_each, i) => ({ kind: 'kill', what: KILLED[i % KILLED.length] }) as Kill,
    ),
    ...Array.from(
      { length: PARTITIONS },
      (_each, i) => ({ kind: 'partition', what: CUTS[i % CUTS.length] }) as Partition,
    ),
  ]
  return faults
    .map(fault => ({ fault, rank: draw.whole(0, 2 ** 30) }))
    .toSorted((one, other) => one.rank - other.rank)
    .map(({ fault }) => fault)
}

async function campaign(t: TestContext): Promise<void> {
  const draw = createDraw(SEED)
  const countFile = join(newDirectory(), 'count')
  const simulator = await startSimulator({ countFile })
  t.after(simulator.close)
  const postgres = await startKillablePostgres('sluice')
  t.after(postgres.close)
  const fleet = await startFleet(NODES, ENV, { url: postgres.url, drop: async () => {} })
  t.after(() => fleet.close())
  const memberAt = (index: number) => fleet.members[index] as FleetMember
  const direct = { dataDir: '', databaseUrl: postgres.url }
  const randomRequests = await createRandomRequests(draw, memberAt(0).server, simulator.url)
  const { judge } = createJudge(direct, randomRequests, countFile, SETTLED_MS)
  const hits: Record<string, number> = {}
  let fences = 0
  /** From the end of the load until nothing was leased or pending any more. */
  const settleMs: number[] = []
  const countFences = ({ server }: FleetMember) => {
    fences += server.lines().filter(({ msg }) => /for too long. It refuses requests/.test(String(msg))).length
  }

  async function killOn(index: number, what: Exclude<Kill['what'], 'postgres'>): Promise<void> {
    const { server } = memberAt(index)
    if (what !== 'worker') countFences(memberAt(index))
    const mustStart = await killBy(WAYS[what], server, draw, WORKERS)
    if (mustStart) await fleet.restartMember(index)
  }
  async function killPostgres(): Promise<void> {
    await postgres.kill()
    await delay(draw.whole(0, MOST_DOWN_MS))
    await postgres.start()
  }
  async function cutOff(index: number, what: Trouble): Promise<void> {
    const { proxy } = memberAt(index)
    proxy.set(what)
    await delay(draw.whole(MOST_AWAY_MS / 4, MOST_AWAY_MS))
    proxy.set('pass')
  }

  /** The faults of a round hit different nodes, or PostgreSQL, so that each of them ends. */
  async function sufferAll(faults: readonly Fault[]): Promise<void> {
    const free = fleet.members.map((_each, index) => index)
    let isPostgresHit = false
    const running: Promise<void>[] = []
    for (const { kind, what } of faults) {
      await delay(draw.whole(0, MOST_PAUSE_MS))
      const isOnPostgres = kind === 'kill' && what === 'postgres'
      if (isOnPostgres ? isPostgresHit : free.length === 0) await Promise.all(running)
      if (free.length === 0) free.push(...fleet.members.keys())
      hits[`${kind}: ${what}`] = (hits[`${kind}: ${what}`] ?? 0) + 1
      if (isOnPostgres) {
        isPostgresHit = true
        running.push(killPostgres())
        continue
      }
      const [index = 0] = free.splice(draw.whole(0, free.length - 1), 1)
      running.push(kind === 'kill' ? killOn(index, what as keyof typeof WAYS) : cutOff(index, what))
    }
    await Promise.all(running)
  }

  const faults = drawFaults(draw)
  for (let round = 1; faults.length > 0; round++) {
    const some = faults.splice(0, FAULTS_PER_ROUND)
    const at = `round ${round} (${some.map(({ kind, what }) => `${kind}: ${what}`).join(', ')}), seed ${SEED}`
    const loads = fleet.members.map(({ server }) => randomRequests.start(server.url, CLIENTS_PER_NODE))
    try {
      await sufferAll(some)
      for (const { server } of fleet.members)
        await until('every node to be ready', async () =>
          (await retryingFetch(`${server.origin}/readyz`)).status === 200 ? true : undefined,
        )
      await loads[0]?.answered(isCampaign ? 60 : 10)
    } catch (error) {
      throw new Error(at, { cause: error })
    } finally {
      await Promise.all(loads.map(load => load.stop()))
    }
    for (const { server } of fleet.members)
      await untilAllAnswer(server, randomRequests.payers[0]?.tokenId ?? 0)
    const stoppedMs = performance.now()
    await judge(at)
    settleMs.push(performance.now() - stoppedMs)
    const books = await verifyThroughSocket(draw.pick(fleet.members))
    assert.ok(books.ok, `${at}: ${books.lines.join('\n')}`)
    await randomRequests.refill(draw.pick(fleet.members).server.api)
    if (isCampaign) console.log(`${at}: ${randomRequests.told.length} requests`)
  }

  for (const member of fleet.members) {
    const books = await verifyThroughSocket(member)
    assert.ok(books.ok, books.lines.join('\n'))
    countFences(member)
  }
  for (const { server } of fleet.members) assert.equal((await server.stop()).code, 0)
  await simulator.close()
  const accounts = await judge(`after the last, seed ${SEED}`)
  const { told: outcomes, entries, doubts, lines, logs } = accounts
  const codes = Map.groupBy(outcomes, ({ code, ending }) => code ?? ending)
  const figures = {
    ...hits,
    fences,
    'ms until everything was settled: most': Math.round(Math.max(...settleMs)),
    requests: outcomes.length,
    ...Object.fromEntries([...codes].map(([code, each]) => [code, each.length])),
    entries: entries.length,
    'recovered of those': logs.filter(({ other }) => other.includes('"recovered"')).length,
    doubts: doubts.length,
    'lines of the provider': lines.length,
    lost: LAWS[NOTHING_LOST]?.(accounts).length,
    double: LAWS[NOTHING_TWICE]?.(accounts).length,
  }
  const line = `faults of a fleet, seed ${SEED}: ${Object.entries(figures)
    .map(([what, figure]) => `${what} ${figure}`)
    .join(', ')}`
  t.diagnostic(line)
  if (isCampaign) console.log(line)
}

describe('kills and partitions of a fleet under load (docs/operating/fleet.md)', () => {
  it(
    `leave a ledger that agrees with clients and provider (${KILLS} kills, ${PARTITIONS} partitions)`,
    campaign,
  )
})
