import { GENESIS, link } from '../domain/chain.ts'
import type { Db, Trx } from './store.ts'

type Fields = readonly (string | number | null)[]

/** Chains that the store itself writes; a node's own chain bears the node's name. */
export const STORE_CHAIN = 'store'
export const AUDIT_CHAIN = 'audit'

export async function startChain(trx: Trx, name: string): Promise<void> {
  await trx
    .insertInto('chains')
    .values({ name, seq: 0, hash: GENESIS })
    .onConflict(conflict => conflict.column('name').doNothing())
    .execute()
}

/**
 * Takes the next place in a chain. The update locks the chain's row until the transaction ends, so links never fork;
 * take it late, because everybody else who writes to this chain waits.
 */
export async function appendLink(trx: Trx, name: string, fieldsOf: (seq: number) => Fields) {
  const head = await trx
    .updateTable('chains')
    .set(row => ({ seq: row('seq', '+', 1) }))
    .where('name', '=', name)
    .returning(['seq', 'hash'])
    .executeTakeFirstOrThrow()
  const hash = link(head.hash, fieldsOf(head.seq))
  await trx.updateTable('chains').set({ hash }).where('name', '=', name).execute()
  return { seq: head.seq, hash }
}

export const listChains = (db: Db) => db.selectFrom('chains').selectAll().orderBy('name').execute()

export const findChain = (db: Db, name: string) =>
  db.selectFrom('chains').select(['seq', 'hash']).where('name', '=', name).executeTakeFirstOrThrow()
