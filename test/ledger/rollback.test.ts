import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { after, describe, it } from 'node:test'
import { sql } from 'kysely'
import { CHANGES_PER_EPOCH } from '../../src/domain/node.ts'
import { createJournal } from '../../src/ledger/journal.ts'
import { diskFiles } from '../../src/ledger/journal-files.ts'
import { type Hold, type HoldRequest, openLedger } from '../../src/ledger/ledger.ts'
import type { HealOutcome } from '../../src/ledger/rollback.ts'
import { createBooks } from '../../src/store/books/books.ts'
import { suiteGateway } from '../support/gateway.ts'
import { until } from '../support/process.ts'
import { createRandom } from '../support/request-bytes.ts'
import { USAGE } from '../support/usage.ts'

const UNIT = 2_000
/** The tables that the ledger of a node changes. */
const TABLES = [
  'nodes',
  'accounts',
  'leases',
  'chains',
  'entries',
  'logs',
  'rollups',
  'rollup_folds',
  'audit',
]
const SEEDS = process.env.SLUICE_CAMPAIGN === undefined ? 12 : 400
const STEPS = 60

describe('a node whose store has lost acknowledged transactions', () => {
  const gateway = suiteGateway({ engine: 'postgres' })
  const dir = mkdtempSync(join(tmpdir(), 'sluice-rollback-'))
  after(() => rmSync(dir, { recursive: true, force: true }))
  let requests = 0

  async function openNode(node = mkdtempSync(join(dir, 'node-')), files = diskFiles) {
    const outcomes: HealOutcome[] = []
    const ledger = await openLedger({
      nodeId: basename(node),
      journal: createJournal({
        dir: node,
        fullSync: false,
        nowMs: Date.now,
        onReserveReleased: () => {},
        onSyncFailure: () => {},
        segmentRecords: 20,
        files,
      }),
      books: createBooks(gateway.db, 'postgres'),
      otherNodes: {
        isEmpty: async () => true,
        returnIdle: async () => ({ mustStillHold: async () => {} }),
        exclusively: (_userId, work) => work({ mustStillHold: () => {} }),
      },
      outageMs: 0,
      nowMs: Date.now,
      onFailure: () => {},
      onHealed: outcome => outcomes.push(outcome),
    })
    const hold = async (holdRequest: HoldRequest): Promise<Hold> => ledger.hold(holdRequest)
    return { ledger, hold, outcomes, id: basename(node), node }
  }

  async function newPayer(units: number) {
    const user = await gateway.createUser({ quota: units })
    const { body } = await gateway.api(
      'POST',
      '/api/token/',
      { name: 't', remain_quota: units },
      { token: user.accessToken },
    )
    return { userId: user.id, tokenId: body.data.id as number }
  }

  type Payer = Awaited<ReturnType<typeof newPayer>>
  const request = ({ userId, tokenId }: Payer, units: number) => ({
    rid: `lost_${++requests}`,
    userId,
    tokenId,
    tokenName: 't',
    model: 'm',
    amount: units * UNIT,
    isStream: false,
    address: '',
  })

  /** One moment of all tables: a batch must not be applied between the copies of two of them. */
  async function snapshot(): Promise<void> {
    const transaction = gateway.db.transaction().setIsolationLevel('repeatable read')
    await transaction.execute(async trx => {
      for (const table of TABLES) {
        await sql`drop table if exists ${sql.table(`kept_${table}`)}`.execute(trx)
        await sql`create table ${sql.table(`kept_${table}`)} as select * from ${sql.table(table)}`.execute(
          trx,
        )
      }
    })
  }

  async function rollBack(): Promise<void> {
    await gateway.db.transaction().execute(async trx => {
      const tables = sql.join(TABLES.map(table => sql.table(table)))
      await sql`lock table ${tables} in access exclusive mode`.execute(trx)
      for (const table of TABLES) {
        await sql`delete from ${sql.table(table)}`.execute(trx)
        await sql`insert into ${sql.table(table)} overriding system value
          select * from ${sql.table(`kept_${table}`)}`.execute(trx)
      }
    })
  }

  const mustVerify = async () => {
    const { ok, lines } = await gateway.operations.verify({})
    assert.ok(ok, lines.join('\n'))
    const negative = await gateway.db.selectFrom('leases').selectAll().where('amount', '<', 0).execute()
    assert.deepEqual(negative, [])
  }
  const postedOf = async ({ userId }: Payer) => {
    const { posted } = await gateway.db
      .selectFrom('accounts')
      .select('posted')
      .where('kind', '=', 'user')
      .where('owner_id', '=', userId)
      .executeTakeFirstOrThrow()
    return posted
  }

  it('applies the lost settlements again from its journal, each once, with the same entries', async () => {
    const payer = await newPayer(1_000)
    const { ledger, outcomes, id } = await openNode()
    const spend = async (units: number) => {
      const hold = await ledger.hold(request(payer, units + 1))
      await hold.settle({ channelId: 1, cost: units * UNIT, log: USAGE })
    }
    const entries = () =>
      gateway.db.selectFrom('entries').selectAll().where('chain', '=', `node:${id}`).orderBy('seq').execute()
    for (let turn = 0; turn < 5; turn++) await spend(1)
    await ledger.barrier()
    await snapshot()
    for (let turn = 0; turn < 30; turn++) await spend(2)
    await ledger.barrier()
    const before = await entries()
    assert.equal(before.length, 35)
    await rollBack()
    assert.equal((await entries()).length, 5)
    await spend(3)
    await ledger.barrier()
    assert.deepEqual((await entries()).slice(0, 35), before)
    assert.equal(await postedOf(payer), (5 + 60 + 3) * UNIT)
    assert.deepEqual(outcomes, [{ isBehind: true, settlements: 30, uncoveredNanos: 0 }])
    await ledger.close()
    await mustVerify()
  })

  it('applies a lost settlement again that its disk has refused', async () => {
    const payer = await newPayer(1_000)
    let isFull = false
    const { ledger, outcomes } = await openNode(undefined, {
      ...diskFiles,
      openToWrite(path) {
        const file = diskFiles.openToWrite(path)
        return {
          ...file,
          write(bytes, position) {
            if (isFull) throw new Error('no space left on device')
            file.write(bytes, position)
          },
        }
      },
    })
    const hold = await ledger.hold(request(payer, 10))
    await hold.attempt(1, UNIT)
    await snapshot()
    isFull = true
    await assert.rejects(hold.settle({ channelId: 1, cost: 4 * UNIT, log: USAGE }), /space left/)
    await ledger.barrier()
    assert.equal(await postedOf(payer), 4 * UNIT)
    await rollBack()
    ledger.checkStore()
    await ledger.barrier()
    assert.equal(await postedOf(payer), 4 * UNIT)
    assert.deepEqual(outcomes, [{ isBehind: true, settlements: 1, uncoveredNanos: 0 }])
    isFull = false
    await ledger.close()
    await mustVerify()
  })

  it('finds the loss without a new settlement when it is asked to compare, also if its registration is lost', async () => {
    const payer = await newPayer(1_000)
    await snapshot()
    const { ledger, outcomes } = await openNode()
    const hold = await ledger.hold(request(payer, 10))
    await hold.settle({ channelId: 1, cost: 4 * UNIT, log: USAGE })
    await ledger.barrier()
    await rollBack()
    ledger.checkStore()
    await until('the comparison', () => outcomes[0])
    await ledger.barrier()
    await until('the settlement', async () => ((await postedOf(payer)) === 4 * UNIT ? true : undefined))
    assert.equal(outcomes[0]?.isBehind, true)
    await ledger.close()
    await mustVerify()
  })

  it('refuses a late lease of a process whose start is lost, after the node was started again', async () => {
    const payer = await newPayer(20)
    const { ledger: first, node, id } = await openNode()
    await first.close()
    await snapshot()
    const { ledger: lost } = await openNode(node)
    await lost.close()
    await rollBack()
    const { ledger: last } = await openNode(node)
    const books = createBooks(gateway.db, 'postgres')
    const leaseAs = ({ epoch }: typeof last) =>
      books.lease(id, { kind: 'user', ownerId: payer.userId }, UNIT, epoch * CHANGES_PER_EPOCH + 1_000)
    await assert.rejects(leaseAs(lost), /was started again; nothing was leased/)
    assert.equal(await leaseAs(last), UNIT)
    await last.close()
  })

  it('spends no more of a lost lease than its running requests hold, if another node has leased the amount', async () => {
    const payer = await newPayer(20)
    const [a, b] = [await openNode(), await openNode()]
    await snapshot()
    const running = await a.ledger.hold(request(payer, 5))
    await rollBack()
    // The other node gets everything, because the lease of the first one is lost.
    const rival = await b.ledger.hold(request(payer, 20))
    a.ledger.checkStore()
    await until('the comparison', () => a.outcomes[0])
    await assert.rejects(async () => a.ledger.hold(request(payer, 1)), { code: 'insufficient_quota' })
    await running.settle({ channelId: 1, cost: 5 * UNIT, log: USAGE })
    await rival.settle({ channelId: 1, cost: 20 * UNIT, log: USAGE })
    await a.ledger.close()
    await b.ledger.close()
    assert.equal(await postedOf(payer), 25 * UNIT)
    await mustVerify()
  })

  it('applies nothing to a store that lacks its lease, before the lease is restored', async () => {
    const payer = await newPayer(1_000)
    const { ledger, hold, outcomes } = await openNode()
    await ledger.barrier()
    await snapshot()
    const running = await hold(request(payer, 10))
    await rollBack()
    await running.settle({ channelId: 1, cost: 4 * UNIT, log: USAGE })
    await ledger.barrier().catch(() => {})
    await until('the comparison', () => outcomes[0])
    await ledger.barrier()
    await ledger.close()
    const rows = await gateway.db
      .selectFrom('accounts')
      .select(['posted', 'held'])
      .where('kind', '=', 'user')
      .where('owner_id', '=', payer.userId)
      .execute()
    assert.deepEqual(rows, [{ posted: 4 * UNIT, held: 0 }])
    await mustVerify()
  })

  it(`keeps the books consistent after a loss at any moment (${SEEDS} seeds)`, async () => {
    for (let seed = 1; seed <= SEEDS; seed++) {
      const random = createRandom(20_261_117 + seed)
      const below = (limit: number) => Math.floor(random() * limit)
      const payers = [await newPayer(below(200)), await newPayer(100_000)]
      const nodes = [await openNode(), await openNode()]
      const running: Hold[] = []
      let settled = 0
      const snapshotAt = below(STEPS / 2)
      const lossAt = snapshotAt + 1 + below(STEPS / 2)
      async function end(hold: Hold): Promise<void> {
        if (random() < 0.2) return void hold.release()
        await hold.attempt(1, UNIT)
        await hold.settle({ channelId: 1, cost: below(30) * UNIT, log: USAGE })
        settled++
      }
      const first = requests + 1
      for (let step = 0; step < STEPS; step++) {
        const node = nodes[below(nodes.length)]
        const payer = payers[below(payers.length)] as Payer
        const kind = below(10)
        if (step === snapshotAt) await snapshot()
        if (step === lossAt) {
          for (const each of nodes) await each.ledger.barrier()
          await rollBack()
          if (random() < 0.5) for (const each of nodes) each.ledger.checkStore()
        }
        if (kind < 5)
          await node?.hold(request(payer, 1 + below(20))).then(
            hold => running.push(hold),
            () => {},
          )
        else if (kind < 9 && running.length > 0)
          await end(running.splice(below(running.length), 1)[0] as Hold)
        else await node?.ledger.barrier()
      }
      for (const hold of running) await end(hold)
      for (const { ledger, outcomes } of nodes) {
        ledger.checkStore()
        await until('the last comparison', async () => (outcomes.length > 0 ? true : undefined))
        await ledger.barrier()
        await ledger.close()
      }
      const last = requests
      const { rows } = await sql<{ count: number; requests: number }>`
        select count(*) as count, count(distinct request_id) as requests from entries
        where request_id like 'lost_%' and substr(request_id, 6)::int between ${first} and ${last}`.execute(
        gateway.db,
      )
      assert.deepEqual(rows[0], { count: settled, requests: settled }, `seed ${seed}`)
      await mustVerify()
    }
  })
})
