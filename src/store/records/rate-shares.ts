import { sql } from 'kysely'
import type { Db } from '../engine/store.ts'

/** The row of a subject, and the machines that may use its shares. Times are those of the database. */
export type StoredShares = {
  /** 0: there is no row yet. */
  readonly version: number
  readonly shares: string
  readonly nowMs: number
  /** When each machine is fenced without another heartbeat. A machine that has left is absent. */
  readonly fencedMs: ReadonlyMap<string, number>
}

type Row = {
  version: number | null
  shares: string | null
  now_ms: number
  machines: readonly { machine: string; fenced_ms: number }[] | null
}

export async function readRateShares(db: Db, subject: string): Promise<StoredShares> {
  const { rows } = await sql<Row>`
    select version, shares, (extract(epoch from clock_timestamp()) * 1000)::bigint as now_ms,
      (select json_agg(json_build_object('machine', machine, 'fenced_ms', fenced_ms)) from
        (select machine, max(beat_ms + fence_ms) as fenced_ms from node_heartbeats
          where state <> 'retired' group by machine) as each) as machines
    from (select 1) as one left join rate_shares on subject = ${subject}`.execute(db)
  const row = rows[0]
  return {
    version: row?.version ?? 0,
    shares: row?.shares ?? '[]',
    nowMs: row?.now_ms ?? 0,
    fencedMs: new Map((row?.machines ?? []).map(({ machine, fenced_ms }) => [machine, fenced_ms])),
  }
}

/** Writes the row if its version is unchanged. Returns whether it was. */
export async function replaceRateShares(
  db: Db,
  subject: string,
  { version, shares }: { readonly version: number; readonly shares: string },
): Promise<boolean> {
  if (version === 0) {
    const { numInsertedOrUpdatedRows } = await db
      .insertInto('rate_shares')
      .values({ subject, version: 1, shares })
      .onConflict(conflict => conflict.column('subject').doNothing())
      .executeTakeFirst()
    return numInsertedOrUpdatedRows === 1n
  }
  const { numUpdatedRows } = await db
    .updateTable('rate_shares')
    .set({ version: version + 1, shares })
    .where('subject', '=', subject)
    .where('version', '=', version)
    .executeTakeFirst()
  return numUpdatedRows === 1n
}
