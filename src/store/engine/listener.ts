import { Kysely, PostgresDialect, sql } from 'kysely'
import { createPool } from './postgres.ts'
import type { Database } from './schema.ts'
import type { Db } from './store.ts'

/** The channel of LISTEN and NOTIFY for all gateways that share the database. */
const CHANNEL = 'sluice_fleet'
const CONNECT_TIMEOUT_MS = 5_000
const QUERY_TIMEOUT_MS = 5_000

/**
 * A connection of its own for short statements, which also receives notifications. A busy pool does not delay it. If it
 * breaks, the next statement opens another one; notifications in between are lost.
 */
export function openListener(url: string) {
  const listeners = new Set<(payload: string) => void>()
  const pool = () =>
    createPool(
      url,
      {
        max: 1,
        idleTimeoutMillis: 0,
        connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
        query_timeout: QUERY_TIMEOUT_MS,
      },
      client => {
        client.on('notification', ({ payload }) => {
          for (const listener of listeners) listener(payload ?? '')
        })
        // If this fails, the connection fails with it, and so does the statement that needed it.
        client.query(`listen ${CHANNEL}`).catch(() => {})
      },
    )
  const db: Db = new Kysely<Database>({ dialect: new PostgresDialect({ pool }) })
  return {
    db,
    /** The function receives the payload of every notification, also of those that this process sent. */
    subscribe(listener: (payload: string) => void): void {
      listeners.add(listener)
    },
    /** Notifications are received while a connection is open: opens one. */
    open: () => sql`select 1`.execute(db),
    async notify(payload: string): Promise<void> {
      await sql`select pg_notify(${CHANNEL}, ${payload})`.execute(db)
    },
    async close(): Promise<void> {
      listeners.clear()
      await db.destroy()
    },
  }
}

export type Listener = ReturnType<typeof openListener>

/** The SQL that notifies as part of another statement. */
export const notifySql = (payload: string) => sql`pg_notify(${CHANNEL}, ${payload})`
