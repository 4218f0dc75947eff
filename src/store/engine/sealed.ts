import { sql } from 'kysely'
import { NO_HEADERS } from '../../domain/channel.ts'
import type { Db, Engine, Trx } from './store.ts'

/** A sealed text and the place it is bound to. It is replaced only if it has not changed since it was read. */
export type Sealed = {
  readonly place: { readonly table: string; readonly row: number | string; readonly field: string }
  readonly sealed: string
  replace(trx: Trx, sealed: string): Promise<void>
}

type Source = (db: Db, newestPrefix: string, limit: number) => Promise<Sealed[]>

/** Every column with sealed texts. Rotation goes through this list, so a new column must be added here. */
const SOURCES: readonly Source[] = [
  async (db, prefix, limit) => {
    const rows = await db
      .selectFrom('meta')
      .selectAll()
      .where('key', 'in', ['digest_key', 'chain_key', 'body_key'])
      .where('value', 'not like', `${prefix}%`)
      // The digest key first: at startup it verifies the master secret.
      .orderBy('key', 'desc')
      .limit(limit)
      .execute()
    return rows.map(row => ({
      place: { table: 'meta', row: row.key, field: 'value' },
      sealed: row.value,
      replace: async (trx, value) =>
        void (await trx
          .updateTable('meta')
          .set({ value })
          .where('key', '=', row.key)
          .where('value', '=', row.value)
          .execute()),
    }))
  },
  async (db, prefix, limit) => {
    const rows = await db
      .selectFrom('tokens')
      .select(['id', 'key_sealed'])
      .where('key_sealed', 'not like', `${prefix}%`)
      .limit(limit)
      .execute()
    return rows.map(row => ({
      place: { table: 'tokens', row: row.id, field: 'key' },
      sealed: row.key_sealed,
      replace: async (trx, key_sealed) =>
        void (await trx
          .updateTable('tokens')
          .set({ key_sealed })
          .where('id', '=', row.id)
          .where('key_sealed', '=', row.key_sealed)
          .execute()),
    }))
  },
  async (db, prefix, limit) => {
    const rows = await db
      .selectFrom('channel_keys')
      .select(['id', 'sealed'])
      .where('sealed', 'not like', `${prefix}%`)
      .limit(limit)
      .execute()
    return rows.map(row => ({
      place: { table: 'channel_keys', row: row.id, field: 'key' },
      sealed: row.sealed,
      replace: async (trx, sealed) =>
        void (await trx
          .updateTable('channel_keys')
          .set({ sealed })
          .where('id', '=', row.id)
          .where('sealed', '=', row.sealed)
          .execute()),
    }))
  },
  async (db, prefix, limit) => {
    const rows = await db
      .selectFrom('channels')
      .select(['id', 'header_override'])
      .where('header_override', 'not like', PLAIN_HEADERS)
      .where('header_override', 'not like', `${prefix}%`)
      .limit(limit)
      .execute()
    return rows.map(row => ({
      place: { table: 'channels', row: row.id, field: 'header_override' },
      sealed: row.header_override,
      replace: (trx, sealed) => replaceHeaders(trx, row, sealed),
    }))
  },
  async (db, prefix, limit) => {
    const rows = await db
      .selectFrom('channels')
      .select(['id', 'setting_sealed'])
      .where('setting_sealed', '<>', '')
      .where('setting_sealed', 'not like', `${prefix}%`)
      .limit(limit)
      .execute()
    return rows.map(row => ({
      place: { table: 'channels', row: row.id, field: 'setting' },
      sealed: row.setting_sealed,
      replace: async (trx, setting_sealed) =>
        void (await trx
          .updateTable('channels')
          .set({ setting_sealed })
          .where('id', '=', row.id)
          .where('setting_sealed', '=', row.setting_sealed)
          .execute()),
    }))
  },
  async (db, prefix, limit) => {
    const rows = await db
      .selectFrom('idempotency')
      .select(['user_id', 'path', 'key', 'answer_sealed'])
      .where('answer_sealed', 'not like', `${prefix}%`)
      .limit(limit)
      .execute()
    return rows.map(row => ({
      place: { table: 'idempotency', row: `${row.user_id} ${row.path} ${row.key}`, field: 'answer' },
      sealed: row.answer_sealed,
      replace: async (trx, answer_sealed) =>
        void (await trx
          .updateTable('idempotency')
          .set({ answer_sealed })
          .where('user_id', '=', row.user_id)
          .where('path', '=', row.path)
          .where('key', '=', row.key)
          .where('answer_sealed', '=', row.answer_sealed)
          .execute()),
    }))
  },
  async (db, prefix, limit) => {
    const rows = await db
      .selectFrom('videos')
      .select(['id', 'access_sealed'])
      .where('access_sealed', '<>', '')
      .where('access_sealed', 'not like', `${prefix}%`)
      .limit(limit)
      .execute()
    return rows.map(row => ({
      place: { table: 'videos', row: row.id, field: 'access' },
      sealed: row.access_sealed,
      replace: async (trx, access_sealed) =>
        void (await trx
          .updateTable('videos')
          .set({ access_sealed })
          .where('id', '=', row.id)
          .where('access_sealed', '=', row.access_sealed)
          .execute()),
    }))
  },
  async (db, prefix, limit) => {
    const rows = await db
      .selectFrom('alert_targets')
      .select(['id', 'sealed'])
      .where('sealed', 'not like', `${prefix}%`)
      .limit(limit)
      .execute()
    return rows.map(row => ({
      place: { table: 'alert_targets', row: row.id, field: 'secrets' },
      sealed: row.sealed,
      replace: async (trx, sealed) =>
        void (await trx
          .updateTable('alert_targets')
          .set({ sealed })
          .where('id', '=', row.id)
          .where('sealed', '=', row.sealed)
          .execute()),
    }))
  },
  async (db, prefix, limit) => {
    const rows = await db
      .selectFrom('canaries')
      .select(['id', 'changes_sealed'])
      .where('changes_sealed', 'not like', `${prefix}%`)
      .limit(limit)
      .execute()
    return rows.map(row => ({
      place: { table: 'canaries', row: row.id, field: 'changes' },
      sealed: row.changes_sealed,
      replace: async (trx, changes_sealed) =>
        void (await trx
          .updateTable('canaries')
          .set({ changes_sealed })
          .where('id', '=', row.id)
          .where('changes_sealed', '=', row.changes_sealed)
          .execute()),
    }))
  },
  async (db, prefix, limit) => {
    const rows = await db
      .selectFrom('setting_secrets')
      .selectAll()
      .where('sealed', 'not like', `${prefix}%`)
      .limit(limit)
      .execute()
    return rows.map(row => ({
      place: { table: 'setting_secrets', row: row.key, field: 'value' },
      sealed: row.sealed,
      replace: async (trx, sealed) =>
        void (await trx
          .updateTable('setting_secrets')
          .set({ sealed })
          .where('key', '=', row.key)
          .where('sealed', '=', row.sealed)
          .execute()),
    }))
  },
]

/** An unsealed `channels.header_override`; a channel without headers is never sealed. */
const PLAIN_HEADERS = '{%'

type PlainHeaders = { readonly id: number; readonly header_override: string }

/** Headers that were written before headers were sealed. */
export const listPlainHeaders = (db: Db, limit: number): Promise<PlainHeaders[]> =>
  db
    .selectFrom('channels')
    .select(['id', 'header_override'])
    .where('header_override', 'like', PLAIN_HEADERS)
    .where('header_override', '<>', NO_HEADERS)
    .limit(limit)
    .execute()

/** Replaces headers only if they have not changed since they were read. */
export async function replaceHeaders(trx: Trx, { id, header_override }: PlainHeaders, sealed: string) {
  await trx
    .updateTable('channels')
    .set({ header_override: sealed })
    .where('id', '=', id)
    .where('header_override', '=', header_override)
    .execute()
}

/** Some texts that are not yet sealed with the newest secret; none when the rotation is complete. */
export async function sealedUnderOlder(db: Db, newestPrefix: string, limit: number): Promise<Sealed[]> {
  for (const source of SOURCES) {
    const texts = await source(db, newestPrefix, limit)
    if (texts.length > 0) return texts
  }
  return []
}

/**
 * Waits for running transactions that may have sealed something, and blocks further ones until this one ends. SQLite needs
 * no lock for that, because it has one writer at a time.
 */
export async function lockSealedTables(trx: Trx, engine: Engine): Promise<void> {
  if (engine === 'sqlite') return
  await sql`lock table meta, tokens, channels, channel_keys, idempotency, videos, alert_targets, setting_secrets, canaries
    in share row exclusive mode`.execute(trx)
}
