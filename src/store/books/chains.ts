import { sql } from 'kysely'
import { type ChainFields, type ChainHead, GENESIS, headMac, link } from '../../domain/chain.ts'
import type { Db, Trx } from '../engine/store.ts'
import { chainKeyOf } from './chain-key.ts'

/** The chains that are not those of nodes. */
export const STORE_CHAIN = 'store'
export const AUDIT_CHAIN = 'audit'

/** For a chain without a journal. */
const NO_JOURNAL = { position: 0, oldestOpen: 0 } as const
/** For a node whose journal has no record yet. */
export const EMPTY_JOURNAL = { position: 0, oldestOpen: 1 } as const

/** False if the chain existed already. */
export async function startChain(
  trx: Trx,
  name: string,
  journal: Pick<ChainHead, 'position' | 'oldestOpen'> = NO_JOURNAL,
): Promise<boolean> {
  const head = { name, seq: 0, hash: GENESIS }
  const { numInsertedOrUpdatedRows } = await trx
    .insertInto('chains')
    .values({ ...head, mac: headMac(chainKeyOf(trx), { ...head, ...journal }) })
    .onConflict(conflict => conflict.column('name').doNothing())
    .executeTakeFirst()
  return numInsertedOrUpdatedRows === 1n
}

/**
 * Appends a link to a chain of the store. The update locks the chain's row until the transaction ends, so the chain never
 * forks, and `fieldsOf` sees all changes of earlier links. Call it late in a transaction, because all other writers of this
 * chain wait.
 */
export async function appendLink(
  trx: Trx,
  name: string,
  fieldsOf: (seq: number) => ChainFields | Promise<ChainFields>,
) {
  const key = chainKeyOf(trx)
  const head = await trx
    .updateTable('chains')
    .set(row => ({ seq: row('seq', '+', 1) }))
    .where('name', '=', name)
    .returning(['seq', 'hash'])
    .executeTakeFirstOrThrow()
  const { seq } = head
  const hash = link(key, head.hash, await fieldsOf(seq))
  await trx
    .updateTable('chains')
    .set({ hash, mac: headMac(key, { name, seq, hash, ...NO_JOURNAL }) })
    .where('name', '=', name)
    .execute()
  return { seq, hash }
}

/**
 * Locks the head of the audit chain until the transaction ends. It serializes changes whose transactions append an audit
 * record anyway, so that none of them decides by a state that another one is about to change.
 */
export async function lockAuditChain(trx: Trx): Promise<void> {
  await trx
    .updateTable('chains')
    .set(row => ({ seq: row.ref('seq') }))
    .where('name', '=', AUDIT_CHAIN)
    .execute()
}

export type StoredHead = ChainHead & { readonly mac: string }

/** Heads with the positions of their nodes, in one statement, because the same transactions move both. */
const heads = (db: Db) =>
  db
    .selectFrom('chains')
    .leftJoin('nodes', join => join.on(sql<boolean>`chains.name = 'node:' || nodes.id`))
    .select(['chains.name', 'chains.seq', 'chains.hash', 'chains.mac'])
    .select(({ fn, val }) => [
      fn.coalesce('nodes.applied_lsn', val(0)).as('position'),
      fn.coalesce('nodes.oldest_open_lsn', val(0)).as('oldestOpen'),
    ])

export const listChains = (db: Db): Promise<StoredHead[]> => heads(db).orderBy('chains.name').execute()

export const findChain = (db: Db, name: string): Promise<StoredHead | undefined> =>
  heads(db).where('chains.name', '=', name).executeTakeFirst()
