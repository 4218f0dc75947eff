import { CompiledQuery, type RawBuilder, sql } from 'kysely'
import type { BodyPageRow, BodyRow, Engine } from '../engine/schema.ts'
import type { Db, Trx } from '../engine/store.ts'

type BodyStore = { readonly db: Db; readonly engine: Engine }
type BodyChange = { readonly trx: Trx; readonly engine: Engine }

const COLUMNS = [
  'id',
  'user_id',
  'created_time',
  'size',
  'other_requests',
  'content',
] as const satisfies (keyof BodyPageRow)[]

/** Of a page with one request. */
const NO_REQUESTS = '[]'

const insertOf = (db: Db, rowCount: number): string => {
  const row = Object.fromEntries(COLUMNS.map(name => [name, 0])) as unknown as BodyPageRow
  return db.insertInto('body_pages').values(Array<BodyPageRow>(rowCount).fill(row)).compile().sql
}

/** The last statement. Under load, batches have the same number of pages. */
let lastInsert:
  | { readonly adapter: unknown; readonly rowCount: number; readonly statement: string }
  | undefined

function statementFor(db: Db, rowCount: number): string {
  const { adapter } = db.getExecutor()
  if (lastInsert?.rowCount !== rowCount || lastInsert.adapter !== adapter)
    lastInsert = { adapter, rowCount, statement: insertOf(db, rowCount) }
  return lastInsert.statement
}

/** The texts of a JSON list, as rows with the column `value`. One parameter: a list of any length is the same statement. */
const textsIn = (engine: Engine, name: string, list: RawBuilder<unknown>): RawBuilder<unknown> =>
  engine === 'postgres'
    ? sql`json_array_elements_text(${list}::json) as ${sql.raw(name)}(value)`
    : sql`json_each(${list}) as ${sql.raw(name)}`

/** Selects the other requests of pages, with the pages. */
const otherRequests = (engine: Engine, pageIds: readonly string[]): RawBuilder<unknown> => {
  const pages = textsIn(engine, 'page', sql`${JSON.stringify(pageIds)}`)
  const requests = textsIn(engine, 'request', sql`body_pages.other_requests`)
  const each = engine === 'postgres' ? sql`cross join lateral` : sql`cross join`
  return sql`select request.value as request_id, body_pages.id as page_id from ${pages}
    join body_pages on body_pages.id = page.value ${each} ${requests}`
}

/** Writes pages. A second page of one request is not found: the first may have been read. */
export async function insertPages({ db, engine }: BodyStore, pages: readonly BodyPageRow[]): Promise<void> {
  if (pages.length === 0) return
  const values = pages.flatMap(page => COLUMNS.map(name => page[name]))
  const insert = CompiledQuery.raw(statementFor(db, pages.length), values)
  const withPlaces = pages.filter(({ other_requests }) => other_requests !== NO_REQUESTS)
  if (withPlaces.length === 0) {
    await db.executeQuery(insert)
    return
  }
  const places = otherRequests(
    engine,
    withPlaces.map(({ id }) => id),
  )
  await db.transaction().execute(async trx => {
    await trx.executeQuery(insert)
    await sql`
      insert into body_places (request_id, page_id) select place.request_id, place.page_id from (${places}) as place
      where true on conflict (request_id) do nothing
    `.execute(trx)
  })
}

const pageIdOf = (requestId: string) =>
  sql<string>`coalesce((select page_id from body_places where request_id = ${requestId}), ${requestId})`

/** The stored bodies of a request: a page, or a row of its own that an older version has written. */
export type StoredBody = { readonly page: BodyPageRow } | { readonly row: BodyRow }

/** The bodies of a request. Those of a deleted user are not found, also if they are not yet removed. */
export async function findBody(db: Db, requestId: string): Promise<StoredBody | undefined> {
  const page = await db
    .selectFrom('body_pages')
    .innerJoin('users', 'users.id', 'body_pages.user_id')
    .selectAll('body_pages')
    .where('users.deleted_time', 'is', null)
    .where('body_pages.id', '=', pageIdOf(requestId))
    .executeTakeFirst()
  if (page) return { page }
  const row = await db
    .selectFrom('bodies')
    .selectAll('bodies')
    .innerJoin('users', 'users.id', 'bodies.user_id')
    .where('users.deleted_time', 'is', null)
    .where('bodies.request_id', '=', requestId)
    .executeTakeFirst()
  return row && { row }
}

/** Whether bodies of a request are stored. */
export async function hasBody(db: Db, requestId: string): Promise<boolean> {
  const [page, row] = await Promise.all([
    db.selectFrom('body_pages').select('id').where('id', '=', pageIdOf(requestId)).executeTakeFirst(),
    db.selectFrom('bodies').select('user_id').where('request_id', '=', requestId).executeTakeFirst(),
  ])
  return page !== undefined || row !== undefined
}

/** Removes pages, with the places of their requests. Returns the number of requests. */
async function removePages({ trx, engine }: BodyChange, ids: readonly string[]): Promise<number> {
  if (ids.length === 0) return 0
  const { numAffectedRows } = await sql`
    delete from body_places where (request_id, page_id) in (${otherRequests(engine, ids)})
  `.execute(trx)
  await trx.deleteFrom('body_pages').where('id', 'in', ids).execute()
  return ids.length + Number(numAffectedRows ?? 0)
}

/** A transaction removes pages with at most this many bytes, or one: it occupies SQLite's writer meanwhile. */
const MAX_REMOVED_BYTES = 8 * 1_048_576

type RemovedBodies = {
  /** The number of requests. */
  readonly count: number
  readonly bytes: number
  /** Whether further ones may be due. */
  readonly hasMore: boolean
}

/** Removes some bodies of one user, or of all deleted users. `limit`: of pages, and of rows of older versions. */
export async function eraseBodies(
  { trx, engine }: BodyChange,
  userId: number | undefined,
  limit: number,
): Promise<Omit<RemovedBodies, 'bytes'>> {
  const owner =
    userId === undefined
      ? sql<boolean>`user_id in (select users.id from users where users.deleted_time is not null)`
      : sql<boolean>`user_id = ${userId}`
  // Several nodes may remove the same pages: the one that has locked them removes their places too.
  const some = trx.selectFrom('body_pages').select(['id', 'size']).where(owner).limit(limit)
  const pages = await (engine === 'postgres' ? some.forUpdate().skipLocked() : some).execute()
  let bytes = 0
  const removed = pages.filter(({ size }, index) => {
    bytes += size
    return index === 0 || bytes <= MAX_REMOVED_BYTES
  })
  const requests = await removePages(
    { trx, engine },
    removed.map(({ id }) => id),
  )
  const { numAffectedRows } = await sql`
    delete from bodies where request_id in (select request_id from bodies where ${owner} limit ${limit})
  `.execute(trx)
  const rows = Number(numAffectedRows ?? 0)
  const hasMore = pages.length === limit || removed.length < pages.length || rows === limit
  return { count: requests + rows, hasMore }
}

/** The bytes of all bodies. */
export async function bodyBytes(db: Db): Promise<number> {
  const bytesOf = async (table: 'bodies' | 'body_pages') => {
    const { total } = await db
      .selectFrom(table)
      .select(({ fn }) => fn.sum<number | string | null>('size').as('total'))
      .executeTakeFirstOrThrow()
    return Number(total ?? 0)
  }
  return (await bytesOf('bodies')) + (await bytesOf('body_pages'))
}

type OldBodies = BodyStore & {
  /** Bodies from before this time are removed. */
  readonly before: number
  /** The bytes above the budget: the oldest bodies with so many bytes are removed. */
  readonly excess: number
  /** Of pages and rows of older versions. */
  readonly limit: number
}

/** A page, or a row of an older version. */
type OldBody = {
  readonly table: 'bodies' | 'body_pages'
  readonly id: string
  readonly created_time: number
  readonly size: number
}

/** The oldest ones of a table. Several nodes may run this: SKIP LOCKED avoids waiting for rows that another node is deleting. */
async function oldestIn(
  { trx, engine }: BodyChange,
  table: OldBody['table'],
  limit: number,
): Promise<OldBody[]> {
  const id = sql.ref<string>(table === 'bodies' ? 'request_id' : 'id')
  const oldest = trx
    .selectFrom(table)
    .select([id.as('id'), 'created_time', 'size'])
    .orderBy('created_time')
    .orderBy(id)
    .limit(limit)
  const rows = await (engine === 'postgres' ? oldest.forUpdate().skipLocked() : oldest).execute()
  return rows.map(row => ({ ...row, table }))
}

/** Removes some of the oldest bodies that are expired or above the budget. */
export function removeOldBodies({ db, engine, before, excess, limit }: OldBodies): Promise<RemovedBodies> {
  return db.transaction().execute(async trx => {
    const rows = await oldestIn({ trx, engine }, 'bodies', limit)
    const pages = await oldestIn({ trx, engine }, 'body_pages', limit)
    const oldest = [...rows, ...pages].sort((a, b) => a.created_time - b.created_time).slice(0, limit)
    const removed: OldBody[] = []
    let bytes = 0
    let hasMore = oldest.length === limit
    for (const body of oldest) {
      const isDue = body.created_time < before || bytes < excess
      if (!isDue || bytes > MAX_REMOVED_BYTES) {
        hasMore = isDue
        break
      }
      bytes += body.size
      removed.push(body)
    }
    const idsIn = (table: OldBody['table']) =>
      removed.filter(body => body.table === table).map(({ id }) => id)
    const rowIds = idsIn('bodies')
    if (rowIds.length > 0) await trx.deleteFrom('bodies').where('request_id', 'in', rowIds).execute()
    const requests = await removePages({ trx, engine }, idsIn('body_pages'))
    return { count: rowIds.length + requests, bytes, hasMore }
  })
}
