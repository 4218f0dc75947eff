import { CompiledQuery, sql } from 'kysely'
import type { BodyRow, Engine } from '../engine/schema.ts'
import type { Db, Trx } from '../engine/store.ts'

const COLUMNS = [
  'request_id',
  'user_id',
  'token_id',
  'created_time',
  'size',
  'content',
] as const satisfies (keyof BodyRow)[]

/** A second body of one request is not stored: the first may have been read. */
const insertOf = (db: Db, rowCount: number): string => {
  const row = Object.fromEntries(COLUMNS.map(name => [name, 0])) as unknown as BodyRow
  return db
    .insertInto('bodies')
    .values(Array<BodyRow>(rowCount).fill(row))
    .onConflict(conflict => conflict.column('request_id').doNothing())
    .compile().sql
}

/** The last statement. Under load, batches have the same number of rows, and to build the SQL takes longer than to encrypt them. */
let lastInsert:
  | { readonly adapter: unknown; readonly rowCount: number; readonly statement: string }
  | undefined

function statementFor(db: Db, rowCount: number): string {
  const { adapter } = db.getExecutor()
  if (lastInsert?.rowCount !== rowCount || lastInsert.adapter !== adapter)
    lastInsert = { adapter, rowCount, statement: insertOf(db, rowCount) }
  return lastInsert.statement
}

/** The contents in one buffer: each buffer is copied to the thread of SQLite by itself, with all memory that it is a part of. */
function inOneBuffer(contents: readonly Uint8Array[]): Uint8Array[] {
  const all = Buffer.allocUnsafeSlow(contents.reduce((sum, { length }) => sum + length, 0))
  let at = 0
  return contents.map(content => {
    all.set(content, at)
    at += content.length
    return all.subarray(at - content.length, at)
  })
}

export async function insertBodies(db: Db, rows: readonly BodyRow[]): Promise<void> {
  if (rows.length === 0) return
  const contents = inOneBuffer(rows.map(({ content }) => content))
  const values = rows.flatMap((row, index) =>
    COLUMNS.map(name => (name === 'content' ? contents[index] : row[name])),
  )
  await db.executeQuery(CompiledQuery.raw(statementFor(db, rows.length), values))
}

/** The body of a request. That of a deleted user is not found, also if it is not yet removed. */
export const findBody = (db: Db, requestId: string): Promise<BodyRow | undefined> =>
  db
    .selectFrom('bodies')
    .selectAll('bodies')
    .innerJoin('users', 'users.id', 'bodies.user_id')
    .where('users.deleted_time', 'is', null)
    .where('bodies.request_id', '=', requestId)
    .executeTakeFirst()

export const ownerOfBody = (db: Db, requestId: string): Promise<{ user_id: number } | undefined> =>
  db.selectFrom('bodies').select('user_id').where('request_id', '=', requestId).executeTakeFirst()

/** Removes some bodies of one user, or of all deleted users. Returns their number. */
export async function eraseBodies(db: Trx | Db, userId: number | undefined, limit: number): Promise<number> {
  const owner =
    userId === undefined
      ? sql`user_id in (select users.id from users where users.deleted_time is not null)`
      : sql`user_id = ${userId}`
  const { numAffectedRows } = await sql`
    delete from bodies where request_id in (select request_id from bodies where ${owner} limit ${limit})
  `.execute(db)
  return Number(numAffectedRows ?? 0)
}

/** The bytes of all bodies. */
export async function bodyBytes(db: Db): Promise<number> {
  const { total } = await db
    .selectFrom('bodies')
    .select(({ fn }) => fn.sum<number | string | null>('size').as('total'))
    .executeTakeFirstOrThrow()
  return Number(total ?? 0)
}

type OldBodies = {
  readonly db: Db
  readonly engine: Engine
  /** Bodies from before this time are removed. */
  readonly before: number
  /** The bytes above the budget: the oldest bodies with so many bytes are removed. */
  readonly excess: number
  readonly limit: number
}

/** Removes some of the oldest bodies that are expired or above the budget. */
export function removeOldBodies({ db, engine, before, excess, limit }: OldBodies) {
  return db.transaction().execute(async trx => {
    const oldest = trx
      .selectFrom('bodies')
      .select(['request_id', 'created_time', 'size'])
      .orderBy('created_time')
      .orderBy('request_id')
      .limit(limit)
    // Several nodes may run this. SKIP LOCKED avoids waiting for rows that another node is deleting.
    const rows = await (engine === 'postgres' ? oldest.forUpdate().skipLocked() : oldest).execute()
    let bytes = 0
    const removed: string[] = []
    for (const row of rows) {
      if (row.created_time >= before && bytes >= excess) break
      bytes += row.size
      removed.push(row.request_id)
    }
    if (removed.length > 0) await trx.deleteFrom('bodies').where('request_id', 'in', removed).execute()
    return { count: removed.length, bytes }
  })
}
