import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { type KyselyPlugin, sql } from 'kysely'
import { Migrator } from 'kysely/migration'
import { createRequestIds } from '../../src/http/request-id.ts'
import { createBooks } from '../../src/store/books/books.ts'
import { type Db, MIGRATIONS, openStore, type Store } from '../../src/store/engine/store.ts'
import { convertTable } from '../../src/store/partitions/conversion.ts'
import { addPartitions } from '../../src/store/partitions/growth.ts'
import { listPartitions } from '../../src/store/partitions/partitions.ts'
import { ENTRIES, LOGS, PARTITIONED_TABLES, usageWidthS } from '../../src/store/partitions/tables.ts'
import { createPartitionUpkeep } from '../../src/store/partitions/upkeep.ts'
import { resolveFilter } from '../../src/store/usage/log-filter.ts'
import { insertLog, LOG_TYPE, listLogs } from '../../src/store/usage/logs.ts'
import { createRetention } from '../../src/store/usage/retention.ts'
import { suiteGateway } from '../support/gateway.ts'
import { createDatabase, stopOwnPostgres } from '../support/postgres.ts'
import { until } from '../support/process.ts'
import { removePartitions } from '../support/unpartitioned.ts'
import { USAGE } from '../support/usage.ts'

const DAY_S = 86_400
const MONTH_S = 30 * DAY_S
const nowS = Math.floor(Date.now() / 1000)
const today = nowS - (nowS % DAY_S)
const pause = async () => {}

after(stopOwnPostgres)

/** Replaces the reading of all rows by a statement that does not end. */
const withoutEnd: KyselyPlugin = {
  transformQuery: ({ node }) =>
    node.kind === 'RawNode' && node.sqlFragments.some(part => part.includes('validate constraint'))
      ? sql`select pg_sleep(300)`.toOperationNode()
      : node,
  transformResult: async ({ result }) => result,
}

/** Names without the date, and spans in days from today. */
const spansOf = async (db: Db, table = LOGS) =>
  (await listPartitions(db, table)).map(({ kind, from, to }) => [
    kind,
    (from - today) / DAY_S,
    (to - today) / DAY_S,
  ])

const log = (db: Db, days: number, type: number = LOG_TYPE.consume) =>
  insertLog(db, { created_time: today + days * DAY_S, type, user_id: 1 })

/** The partition of each row, and its day. */
async function placesOf(db: Db): Promise<string[]> {
  const { rows } = await sql<{ place: string; type: number; time: number }>`
    select tableoid::regclass::text as place, type, created_time as time from logs order by created_time, id`.execute(
    db,
  )
  const partitions = await listPartitions(db, LOGS)
  return rows.map(
    ({ place, type, time }) =>
      `${type}@${Math.floor((time - today) / DAY_S)} ${partitions.find(({ name }) => name === place)?.kind}`,
  )
}

const grow = (db: Db, more: { widthS?: number; now?: number; maxMoved?: number } = {}) =>
  addPartitions({ db, table: LOGS, widthS: DAY_S, now: nowS, pause, ...more })

const sweep = async (db: Db, now: number) => {
  const retention = createRetention({
    db,
    engine: 'postgres',
    sessionLastsS: DAY_S,
    now: () => now,
    isLeader: () => true,
    pause,
    onFailure: error => assert.fail(error),
  })
  try {
    const { usage, partitions } = await retention.sweep()
    return { usage, partitions }
  } finally {
    await retention.close()
  }
}

const keepFor = async (db: Db, days: number) => {
  await db.deleteFrom('settings').execute()
  await db
    .insertInto('settings')
    .values({ key: 'usage_retention_days', value: String(days), updated_time: 0, author_id: 1 })
    .execute()
}

describe('usage rows and entries in a new PostgreSQL database', () => {
  let store: Store
  let other: Store
  let drop: () => Promise<void>
  before(async () => {
    const database = await createDatabase()
    drop = database.drop
    store = openStore({ engine: 'postgres', url: database.url })
    other = openStore({ engine: 'postgres', url: database.url })
    await store.migrate()
  })
  after(async () => {
    await store.close()
    await other.close()
    await drop()
  })

  it('are partitioned from the start, and rows of any time find a place', async () => {
    const first = [
      ['past', -Infinity, 1],
      ['rest', -Infinity, Infinity],
    ]
    assert.deepEqual(await spansOf(store.db, LOGS), first)
    assert.deepEqual(await spansOf(store.db, ENTRIES), first)
    for (const days of [-20_000, 0, 3, 9_000]) await log(store.db, days)
    assert.deepEqual(await placesOf(store.db), ['2@-20000 past', '2@0 past', '2@3 rest', '2@9000 rest'])
  })

  it('get partitions ahead, which take over the rows that were written before they existed', async () => {
    await grow(store.db)
    const spans = Array.from({ length: 8 }, (_, day) => ['span', day + 1, day + 2])
    assert.deepEqual(await spansOf(store.db), [
      ['past', -Infinity, 1],
      ...spans,
      ['rest', -Infinity, Infinity],
    ])
    assert.deepEqual(await placesOf(store.db), ['2@-20000 past', '2@0 past', '2@3 span', '2@9000 rest'])
    assert.deepEqual(await grow(store.db), [], 'nothing is missing')
  })

  it('get each partition once if several nodes make them at the same time', async () => {
    const later = nowS + 5 * DAY_S
    const names = await Promise.all([store, other, store, other].map(({ db }) => grow(db, { now: later })))
    assert.equal(names.flat().length, 5)
    const spans = (await listPartitions(store.db, LOGS)).filter(({ kind }) => kind === 'span')
    assert.deepEqual(
      spans.slice(1).map(({ from }) => from),
      spans.slice(0, -1).map(({ to }) => to),
    )
  })

  it('get partitions again after a time without any, and keep too many rows where they are', async () => {
    const [last = 0] = (await listPartitions(store.db, LOGS))
      .flatMap(({ kind, to }) => (kind === 'rest' ? [] : [(to - today) / DAY_S]))
      .toReversed()
    // The job did not run for ten days: rows of that time are in no partition of their own.
    for (const days of [last, last + 1, last + 1, last + 1, last + 10, last + 10]) await log(store.db, days)
    await grow(store.db, { now: nowS + (last + 10) * DAY_S, maxMoved: 2 })
    const places = (await placesOf(store.db)).slice(-7, -1)
    assert.deepEqual(places, [
      `2@${last} span`,
      ...Array.from({ length: 3 }, () => `2@${last + 1} rest`),
      ...Array.from({ length: 2 }, () => `2@${last + 10} rest`),
    ])
    await log(store.db, last + 11)
    assert.equal((await placesOf(store.db)).at(-2), `2@${last + 11} span`)
  })

  it('lose the partitions of usage rows whose time is over, except for rows of other types', async () => {
    await keepFor(store.db, 0)
    await store.db.deleteFrom('logs').execute()
    await log(store.db, -5, LOG_TYPE.topUp)
    await log(store.db, -5)
    for (const type of [LOG_TYPE.consume, LOG_TYPE.error, LOG_TYPE.refund]) await log(store.db, 2, type)
    for (const days of [3, 4]) await log(store.db, days)
    assert.deepEqual(await sweep(store.db, nowS + 400 * DAY_S), { usage: 0, partitions: 0 }, '0 keeps all')
    await keepFor(store.db, 30)
    // 30 days after the middle of day 3: days 1 and 2 are over, day 3 not yet.
    assert.deepEqual(await sweep(store.db, today + 33.5 * DAY_S), { usage: 1, partitions: 2 })
    assert.deepEqual(await placesOf(store.db), ['1@-5 past', '6@2 rest', '2@3 span', '2@4 span'])
    assert.deepEqual(await sweep(store.db, today + 33.5 * DAY_S), { usage: 0, partitions: 0 })
    await grow(store.db)
    assert.equal((await spansOf(store.db))[1]?.[1], 3, 'a dropped partition is not made again')
  })

  it('lose the rows before the first partition as a whole when all of them have expired', async () => {
    await sql`insert into logs (created_time, type, user_id, token_id, token_name, channel_id, model_name, content, cost,
        prompt_tokens, completion_tokens, use_time_ms, is_stream, address, request_id, other)
      select ${today - 9 * DAY_S}, 2, 1, 1, '', 1, '', '', 0, 0, 0, 0, 0, '', '', '{}' from generate_series(1, 1500)`.execute(
      store.db,
    )
    assert.deepEqual(await sweep(store.db, today + 33.5 * DAY_S), { usage: 0, partitions: 1 })
    assert.deepEqual(await placesOf(store.db), ['1@-5 past', '6@2 rest', '2@3 span', '2@4 span'])
    await log(store.db, -40)
    assert.equal((await placesOf(store.db))[0], '2@-40 past', 'old rows can still be imported')
  })

  it('lose expired rows of a partition that is wider than the setting asks for', async () => {
    await store.db.deleteFrom('logs').execute()
    const last = (await listPartitions(store.db, LOGS)).findLast(({ kind }) => kind === 'span')
    const end = ((last?.to ?? 0) - today) / DAY_S
    await grow(store.db, { widthS: usageWidthS(0), now: last?.to ?? 0 })
    for (const days of [end + 1, end + 20]) await log(store.db, days)
    const narrow = (await spansOf(store.db)).filter(([kind, from]) => kind === 'span' && Number(from) < end)
    const removed = await sweep(store.db, today + (end + 40) * DAY_S)
    assert.deepEqual(removed, { usage: 1, partitions: narrow.length })
    assert.deepEqual(await placesOf(store.db), [`2@${end + 20} span`])
  })

  it('are found by the id of their request, also if a clock was wrong when it began', async () => {
    const { db } = store
    await db.deleteFrom('logs').execute()
    const newId = createRequestIds()
    const logStore = { db, engine: 'postgres' } as const
    for (const [beganDays, from] of [
      [0, nowS - DAY_S],
      [10, undefined],
    ] as const) {
      const requestId = newId((nowS + beganDays * DAY_S) * 1000)
      await insertLog(db, { created_time: nowS, type: LOG_TYPE.consume, user_id: 1, request_id: requestId })
      assert.deepEqual(await resolveFilter(logStore, { requestId }), {
        requestId,
        ...(from !== undefined && { from }),
      })
      const { items, total } = await listLogs(logStore, { requestId }, { page: 1, pageSize: 10 })
      assert.deepEqual([total, items.map(row => row.request_id)], [1, [requestId]])
    }
  })

  it('are read and written by the statements of a version that knows no partitions', async () => {
    const { db } = store
    await db.deleteFrom('logs').execute()
    for (const days of [-3, 5, 9_000]) await log(db, days)
    const { rows } = await sql<{ id: number }>`
      update logs set requests = requests + 1 where id in (select id from logs order by created_time limit 2) returning id`.execute(
      db,
    )
    const ids = rows.map(({ id }) => id)
    const { rows: last } = await sql<{ last: number }>`select max(id) as last from logs`.execute(db)
    assert.ok((last[0]?.last ?? 0) > Math.max(...ids))
    const { rows: deleted } = await sql`delete from logs where id in (
      select id from logs where created_time >= 0 and created_time < ${today} and type in (2, 4, 5)
      order by created_time, id limit 100 for update skip locked) returning created_time`.execute(db)
    assert.equal(deleted.length, 1)
    assert.equal((await db.selectFrom('logs').select('id').where('id', 'in', ids).execute()).length, 1)
  })

  it('never lose entries, whose partitions are made for a month each', async () => {
    const names = await addPartitions({ db: store.db, table: ENTRIES, widthS: MONTH_S, now: nowS, pause })
    assert.equal(names.length, 1)
    await sweep(store.db, nowS + 4_000 * DAY_S)
    assert.equal((await listPartitions(store.db, ENTRIES)).length, 3)
  })
})

describe('a PostgreSQL database of a version without partitions', () => {
  it('is partitioned by the migration where the tables are small', async () => {
    const database = await createDatabase()
    const store = openStore({ engine: 'postgres', url: database.url })
    const migrations = Object.fromEntries(
      Object.entries(MIGRATIONS).map(([name, up]) => [name, { up: (db: never) => up(db, 'postgres') }]),
    )
    const migrator = new Migrator({ db: store.db, provider: { getMigrations: async () => migrations } })
    assert.equal((await migrator.migrateTo('0021-imports')).error, undefined)
    await sql`insert into logs (created_time, type, user_id, token_id, token_name, channel_id, model_name, content, cost,
        prompt_tokens, completion_tokens, use_time_ms, is_stream, address, request_id, other)
      select ${nowS} - n, 2, 1, 1, '', 1, '', '', 0, 0, 0, 0, 0, '', '', '{}' from generate_series(1, 10001) as g(n)`.execute(
      store.db,
    )
    await store.migrate()
    assert.deepEqual(await listPartitions(store.db, LOGS), [])
    assert.equal((await listPartitions(store.db, ENTRIES)).length, 2)
    await store.close()
    await database.drop()
  })

  describe('with a gateway that is running', () => {
    const gateway = suiteGateway({ engine: 'postgres' })
    const upkeepOf = (openMaintenance = gateway.store.openMaintenance) =>
      createPartitionUpkeep({
        db: gateway.db,
        openMaintenance,
        now: () => nowS,
        pause,
        isLeader: () => true,
        onConverted: () => {},
        onFailure: error => assert.fail(error),
      })
    const constraints = async () => {
      const { rows } = await sql<{ name: string }>`
        select conname as name from pg_constraint where conname like '%_before' order by 1`.execute(
        gateway.db,
      )
      return rows.map(({ name }) => name)
    }

    /** A node that settles requests until it is stopped. Every batch must be applied. */
    function startNode(nodeId: string, userId: number) {
      const books = createBooks(gateway.db, 'postgres')
      let isStopped = false
      let settled = 0
      async function settle(): Promise<void> {
        await books.openNode(nodeId, 0, nowS)
        while (!isStopped) {
          const batch = Array.from({ length: 5 }, () => {
            settled += 1
            const time = { rid: `${nodeId}_${settled}`, timeMs: Date.now() }
            const payer = {
              userId,
              tokenId: 0,
              channelId: 1,
              cost: 7,
              overrun: 0,
              userLeased: 0,
              tokenLeased: 0,
            }
            return { kind: 'settle', ...time, ...payer, doubts: [], log: USAGE }
          })
          const place = { afterLsn: settled - 5, lastLsn: settled, oldestOpenLsn: settled + 1 }
          await books.apply(nodeId, { settled: Buffer.from(JSON.stringify(batch)), ...place })
          await turn()
        }
      }
      const done = settle()
      return {
        count: () => settled,
        async stop(): Promise<number> {
          isStopped = true
          await done
          return settled
        },
      }
    }

    it('is partitioned while nodes write, without losing or repeating a row', async () => {
      const user = await gateway.createUser({ quota: 1_000_000 })
      await sql`create role reporter_of_logs`.execute(gateway.db).catch(() => {})
      await removePartitions(gateway.db)
      await sql`grant select on logs to reporter_of_logs`.execute(gateway.db)
      for (const table of PARTITIONED_TABLES) assert.deepEqual(await listPartitions(gateway.db, table), [])
      const nodes = ['one', 'two'].map(name => startNode(name, user.id))
      const grown = (more: number) => {
        const from = nodes.map(({ count }) => count())
        return until(
          'settlements',
          async () => nodes.every(({ count }, at) => count() >= (from[at] ?? 0) + more) || undefined,
        )
      }
      await grown(50)
      // Two nodes that both believe to be the leader.
      await Promise.all([upkeepOf(), upkeepOf()].map(upkeep => upkeep.run().finally(upkeep.close)))
      await grown(50)
      const total = (await Promise.all(nodes.map(node => node.stop()))).reduce((sum, count) => sum + count, 0)
      for (const table of PARTITIONED_TABLES) {
        const [past, next, ...more] = await listPartitions(gateway.db, table)
        assert.equal(past?.kind, 'past')
        assert.ok((past?.to ?? 0) > nowS + 29 * DAY_S, 'the existing rows keep their place for a month')
        assert.deepEqual([next?.kind, more.length], ['rest', 0], 'partitions are made when the time comes')
      }
      const { rows } = await sql<{ logs: number; ids: number; entries: number; links: number }>`
        select (select count(*) from logs where user_id = ${user.id} and type = 2) as logs,
          (select count(distinct id) from logs where user_id = ${user.id} and type = 2) as ids,
          (select count(*) from entries where request_id is not null) as entries,
          (select count(distinct (chain, seq)) from entries where request_id is not null) as links`.execute(
        gateway.db,
      )
      assert.deepEqual(rows[0], { logs: total, ids: total, entries: total, links: total })
      const { ok, lines } = await gateway.operations.verify({})
      assert.ok(ok, lines.join('\n'))
      assert.deepEqual(await constraints(), [])
      const { rows: grants } = await sql<{ may: boolean }>`
        select has_table_privilege('reporter_of_logs', 'logs', 'select') as may`.execute(gateway.db)
      assert.ok(grants[0]?.may, 'a role that could read the table still can')
    })

    it('stays as it is if another node has converted it meanwhile', async () => {
      const before = await listPartitions(gateway.db, LOGS)
      const conversion = { db: gateway.db, maintenance: gateway.db, table: LOGS, now: nowS, pause }
      assert.equal(await convertTable(conversion), undefined)
      assert.deepEqual(await listPartitions(gateway.db, LOGS), before)
      assert.deepEqual(await constraints(), [])
    })

    it('has the same indexes afterwards, and the keys of each partition are unique', async () => {
      const { rows } = await sql<{ parent: string; count: number }>`
        select indrelid::regclass::text as parent, count(*) as count from pg_index
        where indrelid in ('logs'::regclass, 'logs_past'::regclass, 'logs_rest'::regclass) and indisvalid
        group by 1 order by 1`.execute(gateway.db)
      const [whole, past, rest] = rows.map(({ count }) => Number(count))
      assert.equal(past, (whole ?? 0) + 1)
      assert.equal(rest, (whole ?? 0) + 1)
      const entry = await gateway.db.selectFrom('entries').selectAll().limit(1).executeTakeFirstOrThrow()
      await assert.rejects(gateway.db.insertInto('entries').values(entry).execute(), /duplicate key/)
    })

    it('refuses no row if the conversion is interrupted, and converts later', async () => {
      await removePartitions(gateway.db)
      // An earlier conversion ended without a trace of its node, and its bound is near.
      await sql`alter table logs add constraint logs_before check (created_time < ${sql.lit(nowS + DAY_S)}) not valid`.execute(
        gateway.db,
      )
      const endless = upkeepOf(() => gateway.store.openMaintenance().withPlugin(withoutEnd))
      const failed = assert.rejects(endless.run(), /cancel/)
      await until('the conversion', async () => {
        const { rows } = await sql`select 1 from pg_stat_activity
          where query like '%pg_sleep%' and query not like '%activity%' and datname = current_database()`.execute(
          gateway.db,
        )
        return rows.length > 0 || undefined
      })
      assert.deepEqual(await constraints(), ['entries_before', 'logs_before'])
      await endless.close()
      await failed
      assert.deepEqual(await constraints(), ['logs_before'])
      const upkeep = upkeepOf()
      await upkeep.run()
      await upkeep.close()
      assert.deepEqual(await constraints(), [])
      for (const table of PARTITIONED_TABLES)
        assert.ok(((await listPartitions(gateway.db, table))[0]?.to ?? 0) > nowS + 29 * DAY_S)
      const { ok, lines } = await gateway.operations.verify({})
      assert.ok(ok, lines.join('\n'))
    })
  })
})
