import { type Kysely, sql } from 'kysely'
import type { Database } from '../engine/schema.ts'
import { createLike, pastOf, restOf } from './partitions.ts'
import { nextDay, type PartitionedTable } from './tables.ts'

/** A time that is after every row, and not before `after`: the end of the partition that the existing table becomes. */
export async function endOfPast(
  db: Kysely<Database>,
  { name, time }: PartitionedTable,
  after: number,
): Promise<number> {
  const { rows } = await sql<{ last: number | null }>`
    select max(${sql.ref(time)}) as last from ${sql.table(name)}`.execute(db)
  return nextDay(Math.max(after, rows[0]?.last ?? 0))
}

type Index = { readonly name: string; readonly is_unique: boolean; readonly definition: string }

async function indexesOf(trx: Kysely<Database>, table: string): Promise<Index[]> {
  const { rows } = await sql<Index>`
    select relname as name, indisunique as is_unique, pg_get_indexdef(pg_class.oid) as definition
    from pg_index join pg_class on pg_class.oid = indexrelid
    where indrelid = to_regclass(${table}) order by relname`.execute(trx)
  return rows
}

/** The same index on another table. */
const definitionOn = ({ name, definition }: Index, table: string) =>
  sql`create index ${sql.id(name)} on ${sql.table(table)} ${sql.raw(definition.slice(definition.indexOf(' USING ')))}`

/**
 * The partitioned table has default values from a sequence of its own, because PostgreSQL has identity columns in partitioned
 * tables only since version 17. Ids go on where they were.
 */
async function moveSequence(trx: Kysely<Database>, { name }: PartitionedTable, past: string): Promise<void> {
  const { rows } = await sql<{ sequence: string }>`
    select pg_get_serial_sequence(${past}, 'id') as sequence`.execute(trx)
  const { rows: positions } = await sql<{ last_value: number; is_called: boolean }>`
    select last_value, is_called from ${sql.raw(rows[0]?.sequence ?? '')}`.execute(trx)
  const sequence = `${name}_id_seq`
  await sql`alter table ${sql.table(past)} alter column id drop identity`.execute(trx)
  await sql`create sequence ${sql.id(sequence)} owned by ${sql.table(name)}.id`.execute(trx)
  const { last_value, is_called } = positions[0] ?? { last_value: 1, is_called: false }
  await sql`select setval(${sequence}::regclass, ${last_value}, ${is_called})`.execute(trx)
  await sql`alter table ${sql.table(name)} alter column id
    set default nextval(${sql.lit(sequence)}::regclass)`.execute(trx)
}

/** Gives the roles that an operator has granted something on a table the same on another one. */
async function copyGrants(trx: Kysely<Database>, from: string, to: string): Promise<void> {
  const { rows } = await sql<{ privilege: string; grantee: string | null }>`
    select privilege_type as privilege, rolname as grantee
    from pg_class cross join aclexplode(relacl) as acl left join pg_roles on pg_roles.oid = acl.grantee
    where pg_class.oid = to_regclass(${from}) and acl.grantee <> relowner`.execute(trx)
  for (const { privilege, grantee } of rows)
    await sql`grant ${sql.raw(privilege)} on ${sql.table(to)}
      to ${grantee === null ? sql`public` : sql.id(grantee)}`.execute(trx)
}

/**
 * Replaces a table, which the transaction has locked, by a partitioned one. The table becomes its partition of all rows before
 * `end`. PostgreSQL reads the rows if no valid constraint proves that all are before it.
 */
export async function partitionTable(
  trx: Kysely<Database>,
  table: PartitionedTable,
  end: number,
): Promise<void> {
  const { name, time } = table
  const past = pastOf(table)
  await sql`alter table ${sql.table(name)} rename to ${sql.id(past)}`.execute(trx)
  const indexes = await indexesOf(trx, past)
  for (const index of indexes)
    await sql`alter index ${sql.id(index.name)} rename to ${sql.id(
      index.name.startsWith(name) ? index.name.replace(name, past) : `${past}_${index.name}`,
    )}`.execute(trx)
  await sql`create table ${sql.table(name)} (like ${sql.table(past)} including defaults)
    partition by range (${sql.ref(time)})`.execute(trx)
  if (table.hasOwnIds) await moveSequence(trx, table, past)
  // A unique index of the partitioned table would have to contain the time. Partitions have their own.
  for (const index of indexes) if (!index.is_unique) await definitionOn(index, name).execute(trx)
  await sql`alter table ${sql.table(name)} attach partition ${sql.table(past)}
    for values from (minvalue) to (${sql.lit(end)})`.execute(trx)
  await createLike(trx, table, restOf(table))
  await sql`alter table ${sql.table(name)} attach partition ${sql.table(restOf(table))} default`.execute(trx)
  await copyGrants(trx, past, name)
}
