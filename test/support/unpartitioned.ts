import { sql } from 'kysely'
import type { Db } from '../../src/store/engine/store.ts'
import { PARTITIONED_TABLES } from '../../src/store/partitions/tables.ts'

/** Gives usage rows and entries the schema of a version that did not partition them, with all their rows. */
export async function removePartitions(db: Db): Promise<void> {
  for (const { name, hasOwnIds } of PARTITIONED_TABLES)
    await db.transaction().execute(async trx => {
      const run = (statement: string) => sql.raw(statement).execute(trx)
      const past = `${name}_past`
      await run(`lock table ${name} in access exclusive mode`)
      const { rows: ids } = hasOwnIds
        ? await sql<{ last: number }>`select nextval(pg_get_serial_sequence(${name}, 'id')) as last`.execute(
            trx,
          )
        : { rows: [] }
      await run(`alter table ${name} detach partition ${past}`)
      await run(`insert into ${past} select * from ${name}`)
      await run(`drop table ${name}`)
      await run(`alter table ${past} rename to ${name}`)
      const { rows: indexes } = await sql<{ index: string }>`
        select indexname as index from pg_indexes where tablename = ${name} and indexname like ${`${past}%`}`.execute(
        trx,
      )
      for (const { index } of indexes)
        await run(`alter index ${index} rename to ${index.replace(past, name)}`)
      if (ids[0])
        await run(
          `alter table ${name} alter column id add generated always as identity (start ${ids[0].last + 1})`,
        )
    })
}
