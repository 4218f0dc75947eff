import assert from 'node:assert/strict'
import { randomInt } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { sql } from 'kysely'
import type { Db } from '../../src/store/engine/store.ts'
import { fitBalances, fitHead, relink } from '../support/forged-chain.ts'
import { oneEngine } from '../support/gateway.ts'
import { createDraw, type Draw } from '../support/random-writes.ts'
import { createStoppedBooks, type StoppedBooks, type Tampering } from '../support/stopped-books.ts'
import { allRows } from '../support/tables.ts'

const isCampaign = process.env.SLUICE_CAMPAIGN !== undefined
const TAMPERINGS = isCampaign ? 200 : 12
const SEED = Number(process.env.SLUICE_SEED ?? (isCampaign ? randomInt(2 ** 31) : 20_261_116))

type Value = string | number | null
type Row = Readonly<Record<string, Value>>
type Table = {
  readonly key: readonly string[]
  readonly columns: readonly string[]
  /** Whether verify may fail to report that a row was removed. */
  readonly mayGo?: true
}

/** The columns that verify covers. A change of any other column moves no money and grants no right. */
const PROVEN: Readonly<Record<string, Table>> = {
  entries: {
    key: ['chain', 'seq'],
    columns: [
      'time',
      'kind',
      'user_id',
      'token_id',
      'channel_id',
      'amount',
      'actor',
      'reason',
      'request_id',
      'hash',
    ],
  },
  chains: { key: ['name'], columns: ['seq', 'hash', 'mac'] },
  audit: {
    key: ['seq'],
    columns: ['time', 'actor_id', 'via', 'action', 'target', 'before', 'after', 'hash', 'state'],
  },
  accounts: { key: ['kind', 'owner_id'], columns: ['unlimited', 'credited', 'posted', 'held'] },
  nodes: { key: ['id'], columns: ['applied_lsn', 'oldest_open_lsn'] },
  users: { key: ['id'], columns: ['password_hash', 'role', 'status', 'limits', 'deleted_time'] },
  tokens: {
    key: ['id'],
    columns: ['user_id', 'key_digest', 'status', 'expired_time', 'models', 'allow_ips', 'limits'],
    mayGo: true,
  },
  channels: { key: ['id'], columns: ['type', 'base_url', 'models', 'model_mapping', 'status', 'limits'] },
  prices: { key: ['id'], columns: ['version', 'price', 'effective_time', 'ended_time'] },
  settings: { key: ['key'], columns: ['value'] },
}

/** Columns that are informational and decide nothing. */
const UNPROVEN = [
  ['accounts', 'request_count'],
  ['users', 'display_name'],
  ['users', 'last_login_time'],
  ['tokens', 'accessed_time'],
  ['channels', 'used'],
  ['channels', 'test_time'],
  ['logs', 'content'],
  ['nodes', 'started_time'],
] as const

type Books = { readonly db: Db; readonly dataDir: string }
type Step = { readonly what: string; run(books: Books): Promise<unknown> }

const rowsOf = async (db: Db, table: string) =>
  (await sql<Row>`select * from ${sql.table(table)}`.execute(db)).rows

const whereRow = (table: string, row: Row) => {
  const { key } = PROVEN[table] as Table
  return sql.join(
    key.map(column => sql`${sql.ref(column)} = ${row[column]}`),
    sql` and `,
  )
}

/** Everything that verify covers, as one text: equal texts are equal ledgers. */
async function bookText(db: Db): Promise<string> {
  const tables = await allRows(db)
  return Object.entries(PROVEN)
    .map(([name, { key, columns }]) =>
      (tables.get(name) ?? [])
        .map(row => JSON.stringify([...key, ...columns].map(column => row[column])))
        .sort()
        .join('\n'),
    )
    .join('\n\n')
}

function changed(draw: Draw, value: Value, others: readonly Value[]): Value {
  if (typeof value === 'number') return draw.pick([value + 1, value - 1, value + draw.whole(1, 1e9), 0, 1])
  return draw.pick([draw.text(8), '', '[]', '{}', draw.pick(others), 'settle', 'user:1'])
}

/** One column of one row set to another value. */
async function changeColumn({ db }: Books, draw: Draw, table: string, column: string): Promise<void> {
  const rows = await rowsOf(db, table)
  if (rows.length === 0) return
  const row = draw.pick(rows)
  const value = changed(
    draw,
    row[column] ?? null,
    rows.map(other => other[column] ?? null),
  )
  await sql`update ${sql.table(table)} set ${sql.ref(column)} = ${value} where ${whereRow(table, row)}`.execute(
    db,
  )
}

async function removeRow({ db }: Books, draw: Draw, table: string): Promise<void> {
  const rows = await rowsOf(db, table)
  if (rows.length > 0)
    await sql`delete from ${sql.table(table)} where ${whereRow(table, draw.pick(rows))}`.execute(db)
}

/** A copy of a row under another key. */
async function copyRow({ db }: Books, draw: Draw, table: 'entries' | 'audit'): Promise<void> {
  const row = draw.pick(await rowsOf(db, table))
  const place = draw.pick([draw.whole(-5, 0), draw.whole(1, 40), 1_000])
  const chain = draw.pick([String(row.chain), 'forged', 'node:ghost'])
  const copy: Row = { ...row, seq: place, ...(table === 'entries' && { chain }) }
  const columns = Object.keys(copy)
  await sql`insert into ${sql.table(table)} (${sql.join(columns.map(column => sql.ref(column)))})
    values (${sql.join(Object.values(copy))})`.execute(db)
}

/** The end of a chain, cut off. */
async function cutChain({ db }: Books, draw: Draw): Promise<void> {
  const { name, seq } = draw.pick(await db.selectFrom('chains').selectAll().execute())
  const last = seq - draw.whole(1, 4)
  if (name === 'audit') await db.deleteFrom('audit').where('seq', '>', last).execute()
  else await db.deleteFrom('entries').where('chain', '=', name).where('seq', '>', last).execute()
}

/** Tables without references between the groups, restored to an earlier state. */
const ROLLED_BACK = [
  ['accounts'],
  ['chains'],
  ['audit', 'chains'],
  ['entries', 'chains', 'accounts', 'nodes'],
  ['settings'],
  ['prices'],
  ['entries', 'chains', 'accounts', 'nodes', 'audit', 'settings', 'prices'],
] as const

async function rollBack(
  { db }: Books,
  tables: readonly string[],
  middle: ReadonlyMap<string, readonly Row[]>,
) {
  for (const table of tables) {
    await sql`delete from ${sql.table(table)}`.execute(db)
    for (const row of middle.get(table) ?? []) {
      const columns = Object.keys(row).map(column => sql.ref(column))
      const identity = table === 'prices' && db.getExecutor().adapter.constructor.name.includes('Postgres')
      await sql`insert into ${sql.table(table)} (${sql.join(columns)})
        ${sql.raw(identity ? 'overriding system value' : '')} values (${sql.join(Object.values(row))})`.execute(
        db,
      )
    }
  }
}

function drawStep(draw: Draw, middle: ReadonlyMap<string, readonly Row[]>): Step {
  const table = draw.pick(Object.keys(PROVEN))
  const { columns, mayGo } = PROVEN[table] as Table
  const column = draw.pick(columns)
  const removed = mayGo ? 'entries' : table
  const copied = draw.pick(['entries', 'audit'] as const)
  const tables = draw.pick(ROLLED_BACK)
  return draw.pick<Step>([
    { what: `change ${table}.${column}`, run: books => changeColumn(books, draw, table, column) },
    { what: `change ${table}.${column}`, run: books => changeColumn(books, draw, table, column) },
    { what: `remove a row of ${removed}`, run: books => removeRow(books, draw, removed) },
    { what: `copy a row of ${copied}`, run: books => copyRow(books, draw, copied) },
    { what: 'cut a chain', run: books => cutChain(books, draw) },
    { what: `roll back ${tables.join(', ')}`, run: books => rollBack(books, tables, middle) },
  ])
}

/** What an attacker does to hide the change. */
const COVERS: readonly Step[] = [
  { what: 'fit balances', run: ({ db }) => fitBalances(db) },
  {
    what: 'fit heads',
    async run({ db }) {
      for (const { name } of await db.selectFrom('chains').select('name').execute()) await fitHead(db, name)
    },
  },
  { what: 'relink the store’s chain', run: ({ db }) => relink(db, 'store') },
  {
    what: 'remove the last anchors',
    async run({ dataDir }) {
      const path = join(dataDir, 'anchors.log')
      writeFileSync(path, `${readFileSync(path, 'utf8').split('\n').slice(0, 2).join('\n')}\n`)
    },
  },
]

for (const engine of oneEngine('sqlite'))
  describe(`${TAMPERINGS} changes to ${engine} ledgers, seed ${SEED}`, () => {
    let books: StoppedBooks
    let middle: ReadonlyMap<string, readonly Row[]>
    before(async () => {
      books = await createStoppedBooks(engine)
      await books.verifyAfter(
        async ({ db }) => {
          middle = (await allRows(db)) as ReadonlyMap<string, readonly Row[]>
        },
        { from: 'middle' },
      )
    })
    after(() => books.close())

    it('are detected whenever they change anything that verify covers', async t => {
      const draw = createDraw(SEED)
      const counts = { found: 0, 'without effect': 0 }
      for (let round = 1; round <= TAMPERINGS; round++) {
        const steps = Array.from({ length: draw.whole(1, 2) }, () => drawStep(draw, middle))
        const covers = COVERS.filter(() => draw.whole(0, 2) === 0)
        const what = [...steps, ...covers].map(step => step.what).join(' + ')
        let isChanged = false
        const tamper: Tampering = async tampered => {
          const text = await bookText(tampered.db)
          // A change that the database rejects has not happened: a duplicate name, a dangling reference.
          for (const step of [...steps, ...covers]) await step.run(tampered).catch(() => {})
          isChanged = (await bookText(tampered.db)) !== text
          isChanged ||= covers.some(step => step.what.includes('anchors'))
        }
        const { ok, lines } = await books.verifyAfter(tamper)
        assert.equal(ok, !isChanged, `round ${round}, seed ${SEED}: ${what}\n${lines.join('\n')}`)
        counts[isChanged ? 'found' : 'without effect'] += 1
      }
      t.diagnostic(`${counts.found} found, ${counts['without effect']} without effect, 0 missed`)
    })

    for (const [table, column] of UNPROVEN)
      it(`are outside the scope of verify if they change ${table}.${column}`, async () => {
        const { ok, lines } = await books.verifyAfter(({ db }) =>
          sql`update ${sql.table(table)} set ${sql.ref(column)} = ${column.endsWith('_name') || column === 'content' ? 'x' : 7}`.execute(
            db,
          ),
        )
        assert.ok(ok, lines.join('\n'))
      })
  })
