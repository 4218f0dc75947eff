import { type Kysely, PostgresAdapter, SqliteAdapter } from 'kysely'
import type { ChainKey } from '../../domain/chain.ts'
import type { Database } from '../engine/schema.ts'

/**
 * Every transaction of a store needs the chain key to append a link. Kysely shares one adapter between a database and its
 * transactions, so the adapter holds the key.
 */
type KeyHolder = { chainKey: ChainKey | undefined }

export class KeyedPostgresAdapter extends PostgresAdapter implements KeyHolder {
  chainKey: ChainKey | undefined
}

export class KeyedSqliteAdapter extends SqliteAdapter implements KeyHolder {
  chainKey: ChainKey | undefined
}

const holderOf = (db: Kysely<Database>) => db.getExecutor().adapter as unknown as KeyHolder

export function setChainKey(db: Kysely<Database>, key: ChainKey): void {
  holderOf(db).chainKey = key
}

export function chainKeyOf(db: Kysely<Database>): ChainKey {
  const key = holderOf(db).chainKey
  if (!key) throw new Error('the chain key of this store has not been opened')
  return key
}
