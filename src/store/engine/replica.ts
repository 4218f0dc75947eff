import { Kysely, PostgresDialect, sql } from 'kysely'
import { openPool } from './postgres.ts'
import type { Database } from './schema.ts'
import type { Db } from './store.ts'

const MAX_CONNECTIONS = 4

/** A standby of the database, for reports. It is only read. */
export function openReplica(url: string) {
  const db: Db = new Kysely<Database>({
    dialect: new PostgresDialect({ pool: () => openPool(url, { max: MAX_CONNECTIONS }) }),
  })
  return {
    db,
    /**
     * How many seconds the standby is behind: the age of the newest heartbeat that it knows. Each gateway writes one every second,
     * so this is right even if the standby has lost its connection to the primary.
     */
    async lagS(): Promise<number> {
      const { rows } = await sql<{ lag: number | null }>`
        select ceil(extract(epoch from clock_timestamp()) - max(beat_ms) / 1000.0) as lag
        from node_heartbeats`.execute(db)
      const lag = rows[0]?.lag
      if (lag === null || lag === undefined) throw new Error('the standby knows no running gateway')
      return Math.max(0, Number(lag))
    },
    close: () => db.destroy(),
  }
}

export type Replica = ReturnType<typeof openReplica>
