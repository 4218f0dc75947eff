import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { createChainKey } from '../src/domain/chain.ts'
import { setChainKey } from '../src/store/books/chain-key.ts'
import { AUDIT_CHAIN, startChain } from '../src/store/books/chains.ts'
import { openStore, type Store, transact } from '../src/store/engine/store.ts'

const CREDIT = 4_000_000_000_000_000
const ROWS_AT_ONCE = 500

/** A store of SQLite in which users and tokens, numbered from 1, have credit. */
export async function openLedgerStore(
  folder: string,
  { users, tokens }: { users: number; tokens: number },
): Promise<Store> {
  const store = openStore({ engine: 'sqlite', path: join(folder, 'sluice.db'), fullSync: false })
  await store.migrate()
  setChainKey(store.db, createChainKey(randomBytes(32)))
  await transact(store.db, trx => startChain(trx, AUDIT_CHAIN))
  const account = { unlimited: 0, credited: CREDIT, posted: 0, held: 0, request_count: 0 }
  for (const [kind, count] of [
    ['user', users],
    ['token', tokens],
  ] as const) {
    const rows = Array.from({ length: count }, (_, index) => ({ kind, owner_id: index + 1, ...account }))
    for (let at = 0; at < count; at += ROWS_AT_ONCE)
      await store.db
        .insertInto('accounts')
        .values(rows.slice(at, at + ROWS_AT_ONCE))
        .execute()
  }
  return store
}
