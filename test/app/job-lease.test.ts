import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { createJobLease, type JobLease } from '../../src/app/job-lease.ts'
import { jobLeaseStore } from '../../src/app/job-lease-store.ts'
import { openStore, type Store } from '../../src/store/engine/store.ts'
import { createFolding } from '../../src/store/usage/folds.ts'
import { insertLog, LOG_TYPE } from '../../src/store/usage/logs.ts'
import { createRetention } from '../../src/store/usage/retention.ts'
import { createDatabase, stopOwnPostgres } from '../support/postgres.ts'
import { until } from '../support/process.ts'

const DAY_S = 86_400
const NODES = ['a', 'b', 'c']

after(stopOwnPostgres)

describe('background jobs of several nodes on one PostgreSQL database', () => {
  let store: Store
  let drop: () => Promise<void>
  let nowS = Math.floor(Date.now() / 1000)
  let leases: Map<string, JobLease>
  const open = (holder: string, aheadS = 0) =>
    createJobLease({
      store: jobLeaseStore(store.db),
      holder,
      now: () => nowS + aheadS,
      monotonicMs: () => nowS * 1000,
      onFailure: error => assert.fail(error),
    })
  const holders = () => [...leases].filter(([, lease]) => lease.isHeld()).map(([name]) => name)
  const renew = async (names: readonly string[]) => {
    for (const name of names) await leases.get(name)?.renew()
  }

  before(async () => {
    const database = await createDatabase()
    drop = database.drop
    store = openStore({ engine: 'postgres', url: database.url })
    await store.migrate()
    leases = new Map(NODES.map(name => [name, open(name)]))
    await until('the lease', async () => holders().length === 1 || undefined)
  })
  after(async () => {
    for (const lease of leases.values()) await lease.close()
    await store.close()
    await drop()
  })

  it('run on one of them, which keeps them as long as it lives', async () => {
    const first = holders()
    for (let turn = 0; turn < 10; turn++) {
      nowS += 15
      await renew(NODES)
      assert.deepEqual(holders(), first)
    }
  })

  it('are done by that node only', async () => {
    const bucket = nowS - (nowS % DAY_S) - 3 * DAY_S
    const sums = { requests: 1, failures: 0, prompt_tokens: 1, completion_tokens: 1, cost: 1 }
    const key = { bucket, user_id: 1, token_id: 1, channel_id: 1, model: 'm' }
    await store.db
      .insertInto('rollups')
      .values({ ...key, ...sums })
      .execute()
    await insertLog(store.db, { created_time: nowS - 100 * DAY_S, type: LOG_TYPE.consume, user_id: 1 })
    async function work(lease: JobLease) {
      const job = {
        db: store.db,
        engine: 'postgres' as const,
        now: () => nowS,
        isLeader: lease.isHeld,
        pause: async () => {},
        onFailure: (error: Error) => assert.fail(error),
      }
      const retention = createRetention({ ...job, sessionLastsS: DAY_S })
      const folding = createFolding(job)
      const { usage } = await retention.sweep()
      await folding.fold()
      await retention.close()
      await folding.close()
      const folds = await store.db.selectFrom('rollup_folds').select('start').execute()
      return { usage, folds: folds.length > 0 }
    }
    const leader = holders()
    for (const [name, lease] of leases)
      if (!leader.includes(name)) assert.deepEqual(await work(lease), { usage: 0, folds: false }, name)
    for (const name of leader)
      assert.deepEqual(await work(leases.get(name) as JobLease), { usage: 1, folds: true })
  })

  it('move to another node within a minute after theirs has died, and never run on two', async () => {
    const [dead = ''] = holders()
    const others = NODES.filter(name => name !== dead)
    let heir: string[] = []
    for (let seconds = 0; seconds <= 75; seconds += 5) {
      nowS += 5
      await renew(others)
      assert.ok(holders().length <= 1, `${holders()} after ${seconds} s`)
      heir = holders().filter(name => name !== dead)
      if (heir.length > 0) break
    }
    assert.equal(heir.length, 1)
    await renew([dead])
    assert.deepEqual(holders(), heir, 'a node that comes back does not take them away')
  })

  it('stay on their node when a node joins whose system clock is minutes ahead', async () => {
    const before = holders()
    const ahead = open('ahead', 300)
    for (let turn = 0; turn < 10; turn++) {
      nowS += 15
      await renew(NODES)
      await ahead.renew()
      assert.equal(ahead.isHeld(), false)
      assert.deepEqual(holders(), before)
    }
    await ahead.close()
  })

  it('move at once when their node stops', async () => {
    const [stopped = ''] = holders()
    await leases.get(stopped)?.close()
    assert.deepEqual(holders(), [])
    await renew(NODES.filter(name => name !== stopped))
    assert.equal(holders().length, 1)
    assert.notDeepEqual(holders(), [stopped])
  })
})
