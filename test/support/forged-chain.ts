import { hash } from 'node:crypto'
import { sql } from 'kysely'
import { GENESIS } from '../../src/domain/chain.ts'
import { entryFields } from '../../src/store/books/entry.ts'
import type { Db } from '../../src/store/engine/store.ts'

// What an attacker can do who can write to the database and does not know the chain key.

/** Recomputes every link of a chain of entries as chains without a key were linked, and sets its head. */
export async function relink(db: Db, chain: string): Promise<void> {
  const rows = await db.selectFrom('entries').selectAll().where('chain', '=', chain).orderBy('seq').execute()
  let previous = GENESIS
  for (const { hash: _old, ...row } of rows) {
    previous = hash('sha256', previous + JSON.stringify(entryFields(row)), 'hex')
    await db
      .updateTable('entries')
      .set({ hash: previous })
      .where('chain', '=', chain)
      .where('seq', '=', row.seq)
      .execute()
  }
  await db.updateTable('chains').set({ seq: rows.length, hash: previous }).where('name', '=', chain).execute()
}

const OLD_AUDIT_FIELDS = [
  'seq',
  'time',
  'actor_id',
  'actor_name',
  'via',
  'address',
  'request_id',
  'action',
  'target',
  'before',
  'after',
] as const

/** Rewrites the whole store as a version from before chains had a key would have left it. */
export async function removeKeys(db: Db): Promise<void> {
  await db.deleteFrom('meta').where('key', '=', 'chain_key').execute()
  for (const { name } of await db.selectFrom('chains').select('name').where('name', '<>', 'audit').execute())
    await relink(db, name)
  const rows = await db.selectFrom('audit').selectAll().orderBy('seq').execute()
  let previous = GENESIS
  for (const row of rows) {
    previous = hash('sha256', previous + JSON.stringify(OLD_AUDIT_FIELDS.map(field => row[field])), 'hex')
    await db.updateTable('audit').set({ hash: previous, state: null }).where('seq', '=', row.seq).execute()
  }
  await fitHead(db, 'audit')
  await db.updateTable('chains').set({ mac: '' }).execute()
}

/** Sets a chain's head to its current last record. */
export async function fitHead(db: Db, chain: string): Promise<void> {
  const table = chain === 'audit' ? sql`audit` : sql`(select * from entries where chain = ${chain}) as own`
  const { rows } = await sql<{ seq: number; hash: string }>`
    select seq, hash from ${table} order by seq desc limit 1`.execute(db)
  const head = rows[0] ?? { seq: 0, hash: GENESIS }
  await db.updateTable('chains').set({ seq: head.seq, hash: head.hash }).where('name', '=', chain).execute()
}

/** Sets every balance to the sum of the current entries. */
export async function fitBalances(db: Db): Promise<void> {
  const sum = (when: string, owner: string) =>
    sql.raw(`coalesce((select sum(${when}) from entries where ${owner} = accounts.owner_id), 0)`)
  const posted = "case kind when 'settle' then amount when 'refund' then -amount else 0 end"
  for (const [kind, owner, credit] of [
    ['user', 'user_id', 'grant'],
    ['token', 'token_id', 'limit'],
  ] as const)
    await sql`update accounts set
      credited = ${sum(`case when kind = '${credit}' then amount else 0 end`, owner)},
      posted = ${sum(posted, owner)} where kind = ${kind}`.execute(db)
}

/** The chain of the only node. */
export async function nodeChain(db: Db): Promise<string> {
  const { id } = await db.selectFrom('nodes').select('id').executeTakeFirstOrThrow()
  return `node:${id}`
}
