import { timingSafeEqual } from 'node:crypto'
import { Kysely, PostgresDialect, sql } from 'kysely'
import { type ChainKey, messageMac } from '../../domain/chain.ts'
import { SILENT_CONNECTION_MS } from '../../domain/node.ts'
import { createPool, readTimeline } from './postgres.ts'
import type { Database } from './schema.ts'
import type { Db } from './store.ts'

/** The channel of LISTEN and NOTIFY for all gateways that share the database. */
const CHANNEL = 'sluice_fleet'
const CONNECT_TIMEOUT_MS = 5_000
const QUERY_TIMEOUT_MS = 5_000

/** A message with the proof that a gateway of this database has sent it: the payload of `notifySql`. */
export const signMessage = (key: ChainKey, message: string) => `${messageMac(key, message)} ${message}`

/** The message of a payload; undefined if no gateway of this database has sent it. */
function verified(key: ChainKey, payload: string): string | undefined {
  const end = payload.indexOf(' ')
  const message = payload.slice(end + 1)
  const [mac, expected] = [
    Buffer.from(payload.slice(0, Math.max(end, 0))),
    Buffer.from(messageMac(key, message)),
  ]
  return mac.length === expected.length && timingSafeEqual(mac, expected) ? message : undefined
}

type ListenerOptions = {
  /** Signs the messages of the gateways. */
  readonly key: ChainKey
  /** Receives the timeline of the server with each connection: another one means a failover. */
  readonly onTimeline?: (timeline: string) => void
}

/**
 * A connection of its own for short statements, which also receives notifications. A busy pool does not delay it. If it
 * breaks, or sends nothing for a while, the next statement opens another one; notifications in between are lost. Every role
 * that may connect to the database can notify, so messages that are not signed with the key of the gateways are ignored.
 */
export function openListener(url: string, { key, onTimeline = () => {} }: ListenerOptions) {
  const listeners = new Set<(message: string) => void>()
  let connections = 0
  const pool = () =>
    createPool(
      url,
      {
        max: 1,
        idleTimeoutMillis: 0,
        connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
        query_timeout: QUERY_TIMEOUT_MS,
      },
      async client => {
        connections += 1
        client.on('notification', ({ payload }) => {
          const message = verified(key, payload ?? '')
          if (message !== undefined) for (const listener of listeners) listener(message)
        })
        // If this fails, the connection fails with it, and so does the statement that needed it.
        await client.query(`listen ${CHANNEL}`).catch(() => {})
        // PostgreSQL 13 has no such limit; its locks then last until TCP notices.
        await client.query(`set idle_session_timeout = ${SILENT_CONNECTION_MS}`).catch(() => {})
        // Before the statement that needed the connection: after a failover, its answer is that of another server.
        await readTimeline(client, onTimeline)
      },
    )
  const db: Db = new Kysely<Database>({ dialect: new PostgresDialect({ pool }) })
  return {
    db,
    /** Numbers the connections: locks of the previous one are released. */
    connection: () => connections,
    /** The function receives every message, also those that this process sent. */
    subscribe(listener: (message: string) => void): void {
      listeners.add(listener)
    },
    /** Notifications are received while a connection is open: opens one. */
    open: () => sql`select 1`.execute(db),
    sign: (message: string) => signMessage(key, message),
    async notify(message: string): Promise<void> {
      await sql`select ${notifySql(signMessage(key, message))}`.execute(db)
    },
    async close(): Promise<void> {
      listeners.clear()
      await db.destroy()
    },
  }
}

export type Listener = ReturnType<typeof openListener>

/** The SQL that notifies as part of another statement, with a signed payload. */
export const notifySql = (payload: string) => sql`pg_notify(${CHANNEL}, ${payload})`
