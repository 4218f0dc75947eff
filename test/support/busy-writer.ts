/**
 * Reads from a store whose writer is busy while no file descriptor is free, so that no reader can be started. Prints the number
 * of rows. Run with a low limit of open files.
 */
import { closeSync, mkdtempSync, openSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { Kysely, sql } from 'kysely'
import { createSqliteDialect } from '../../src/store/engine/sqlite.ts'

const LONG_QUERY = sql`with recursive numbers(n) as (select 1 union all select n + 1 from numbers where n < 2000000)
  select count(*) from numbers`
/** Longer than the writer may be busy before another thread is started. */
const BUSY_MS = 100

const directory = mkdtempSync(join(tmpdir(), 'sluice-busy-writer-'))
const db = new Kysely<{ rows: { id: number } }>({
  dialect: createSqliteDialect({ path: join(directory, 'store.db'), fullSync: false }),
})
const count = () =>
  db
    .selectFrom('rows')
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .executeTakeFirstOrThrow()
await sql`create table rows (id integer)`.execute(db)
await sql`insert into rows values (1), (2)`.execute(db)
await count()

const long = LONG_QUERY.execute(db)
const hoard: number[] = []
for (let isFree = true; isFree; )
  try {
    hoard.push(openSync('/dev/null', 'r'))
  } catch {
    isFree = false
  }
await delay(BUSY_MS)
const counted = await count().finally(() => {
  for (const descriptor of hoard) closeSync(descriptor)
})
console.log(JSON.stringify(counted))
await long
await db.destroy()
rmSync(directory, { recursive: true })
