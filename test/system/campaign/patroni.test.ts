import assert from 'node:assert/strict'
import { randomInt } from 'node:crypto'
import { join } from 'node:path'
import { describe, it, type TestContext } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { startSimulator } from '../../../simulator/server.ts'
import { SECRET } from '../../support/fleet.ts'
import { startPatroni } from '../../support/patroni.ts'
import {
  lookInto,
  newDirectory,
  type Server,
  startServer,
  until,
  verifyThroughSocket,
} from '../../support/process.ts'
import { skipWithout } from '../../support/programs.ts'
import { createRandomRequests } from '../../support/random-requests.ts'
import { createDraw } from '../../support/random-writes.ts'
import { untilAllAnswer } from '../../support/relay-campaign.ts'
import { type Accounts, LAWS, readAccounts } from '../../support/relay-laws.ts'
import { WAIT_MS } from '../../support/wait.ts'

const isCampaign = process.env.SLUICE_CAMPAIGN !== undefined
const SEED = Number(process.env.SLUICE_SEED ?? randomInt(2 ** 31))
const NODES = 3
const CLIENTS_PER_NODE = 3
const SYNCHRONOUS_KILLS = Number(process.env.SLUICE_KILLS ?? 10)
const ASYNCHRONOUS_KILLS = 3
/** How long standbys of an asynchronous primary receive nothing before it is killed. */
const LAG_MS = 600
const SETTLED_MS = 2 * WAIT_MS
/** A failover that has lost leases may let accounts spend them twice (docs/adr/0025-postgresql-that-fails-over-and-grows.md). */
const NOT_AFTER_LOSS = 'no account spends more than it was credited'

const skip = isCampaign
  ? skipWithout(import.meta.filename, 'patroni', 'etcd', 'postgres')
  : 'runs with npm run campaign only'

async function campaign(t: TestContext): Promise<void> {
  const draw = createDraw(SEED)
  const countFile = join(newDirectory(), 'count')
  const simulator = await startSimulator({ countFile })
  t.after(simulator.close)
  const cluster = await startPatroni({ isSynchronous: true })
  t.after(cluster.close)
  const nodes: { readonly server: Server; readonly dataDir: string }[] = []
  t.after(() => Promise.all(nodes.map(({ server }) => server.kill())))
  for (let i = 0; i < NODES; i++) {
    const dataDir = join(newDirectory(), 'data')
    const env = { SLUICE_SECRET: SECRET, SLUICE_WORKERS: '1', SLUICE_OUTAGE_S: '20' }
    nodes.push({ dataDir, server: await startServer({ dataDir, databaseUrl: cluster.url, env }) })
  }
  const first = nodes[0]?.server as Server
  const randomRequests = await createRandomRequests(draw, first, simulator.url)
  let isLossy = false
  const breachesOf = (accounts: Accounts) =>
    Object.entries(LAWS)
      .filter(([law]) => !isLossy || law !== NOT_AFTER_LOSS)
      .flatMap(([law, judge]) => judge(accounts).map(each => `${law}: ${each}`))
  async function judge(at: string): Promise<Accounts> {
    const deadlineMs = Date.now() + SETTLED_MS
    for (;;) {
      const accounts = await lookInto({ dataDir: '', databaseUrl: cluster.url }, store =>
        readAccounts(store, randomRequests.told, countFile),
      )
      const broken = breachesOf(accounts)
      if (broken.length === 0) return accounts
      if (Date.now() > deadlineMs) assert.deepEqual(broken.slice(0, 20), [], at)
      await delay(500)
    }
  }
  const linesLike = (pattern: RegExp) =>
    nodes.flatMap(({ server }) => server.lines().filter(({ msg }) => pattern.test(String(msg))))
  const losses = () => linesLike(/has lost transactions that it had acknowledged/)
  const failoverMs: number[] = []

  async function failOver(kill: number, lagMs: number): Promise<void> {
    const mode = lagMs > 0 ? 'asynchronous' : 'synchronous'
    const loads = nodes.map(({ server }) => randomRequests.start(server.url, CLIENTS_PER_NODE))
    try {
      await loads[0]?.answered(draw.whole(30, 120))
      const startMs = performance.now()
      const killed = await cluster.killPrimary({ lagMs })
      await cluster.untilFailover(killed)
      failoverMs.push(performance.now() - startMs)
      cluster.start(killed)
      await loads[0]?.answered(60)
    } finally {
      await Promise.all(loads.map(load => load.stop()))
    }
    await cluster.whole(lagMs === 0)
    for (const { server } of nodes) await untilAllAnswer(server, randomRequests.payers[0]?.tokenId ?? 0)
    await judge(`after kill ${kill} of a ${mode} primary, seed ${SEED}`)
    console.log(
      `kill ${kill} (${mode}): ${Math.round(failoverMs.at(-1) ?? 0)} ms, ${randomRequests.told.length} requests`,
    )
  }

  for (let kill = 1; kill <= SYNCHRONOUS_KILLS; kill++) await failOver(kill, 0)
  assert.deepEqual(losses(), [])
  const noLoss = linesLike(/The ledger of this node has lost nothing/).length
  for (const { dataDir } of nodes) {
    const books = await verifyThroughSocket({ dataDir })
    assert.ok(books.ok, books.lines.join('\n'))
  }

  await cluster.setSynchronous(false)
  isLossy = true
  for (let kill = 1; kill <= ASYNCHRONOUS_KILLS; kill++) {
    const before = losses().length
    await failOver(kill, LAG_MS)
    await until('a node to notice the loss', () => (losses().length > before ? true : undefined))
  }
  const reapplied = losses().reduce((sum, { settlements }) => sum + Number(settlements), 0)
  for (const { server } of nodes) assert.equal((await server.stop()).code, 0)
  await simulator.close()
  const { told: outcomes, entries, doubts, lines } = await judge(`after the last, seed ${SEED}`)
  const endings = Map.groupBy(outcomes, ({ code, ending }) => code ?? ending)
  const figures = {
    'synchronous kills': SYNCHRONOUS_KILLS,
    'reports that nothing was lost': noLoss,
    'asynchronous kills': ASYNCHRONOUS_KILLS,
    'reports of a loss': losses().length,
    'settlements applied again': reapplied,
    'ms until another primary: most': Math.round(Math.max(...failoverMs)),
    requests: outcomes.length,
    ...Object.fromEntries([...endings].map(([ending, each]) => [ending, each.length])),
    entries: entries.length,
    doubts: doubts.length,
    'lines of the provider': lines.length,
  }
  const line = `Patroni, seed ${SEED}: ${Object.entries(figures)
    .map(([what, figure]) => `${what} ${figure}`)
    .join(', ')}`
  t.diagnostic(line)
  console.log(line)
}

describe('three PostgreSQL under Patroni whose primary is killed (docs/operating/postgresql.md: Failover)', () => {
  it(
    'lose nothing with synchronous replication; without it, the loss is reported and healed',
    { skip },
    campaign,
  )
})
