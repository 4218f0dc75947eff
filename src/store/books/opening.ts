import type { AccountKind } from '../../domain/account.ts'
import { headMac, link } from '../../domain/chain.ts'
import { chunksOf } from '../engine/chunks.ts'
import type { EntryKind } from '../engine/schema.ts'
import type { Trx } from '../engine/store.ts'
import { chainKeyOf } from './chain-key.ts'
import { STORE_CHAIN } from './chains.ts'
import { entryFields } from './entry.ts'

const CHUNK = 500

/** A new account with its first credit; a token's account also names the owner of the token. */
export type Opening = {
  readonly ownerId: number
  readonly userId: number
  readonly isUnlimited: boolean
  /** Nanodollars; 0 needs no entry. */
  readonly amount: number
}

type Openings = {
  readonly kind: AccountKind
  readonly accounts: readonly Opening[]
  readonly actor: string
  readonly reason: string
  readonly time: number
}

/** Opens many accounts, each with its opening balance as an entry of the ledger. */
export async function openAccounts(trx: Trx, openings: Openings): Promise<void> {
  const { kind, accounts } = openings
  for (const chunk of chunksOf(accounts, CHUNK))
    await trx
      .insertInto('accounts')
      .values(
        chunk.map(({ ownerId, isUnlimited, amount }) => ({
          kind,
          owner_id: ownerId,
          unlimited: isUnlimited ? 1 : 0,
          credited: amount,
          posted: 0,
          held: 0,
          request_count: 0,
        })),
      )
      .execute()
  const credited = accounts.filter(({ amount }) => amount > 0)
  if (credited.length > 0) await appendOpenings(trx, openings, credited)
}

/** Like `appendLink`, but reserves the links of all entries at once. */
async function appendOpenings(
  trx: Trx,
  { kind, actor, reason, time }: Openings,
  accounts: readonly Opening[],
): Promise<void> {
  const key = chainKeyOf(trx)
  const head = await trx
    .updateTable('chains')
    .set(row => ({ seq: row('seq', '+', accounts.length) }))
    .where('name', '=', STORE_CHAIN)
    .returning(['seq', 'hash'])
    .executeTakeFirstOrThrow()
  const first = head.seq - accounts.length + 1
  let { hash } = head
  const entries = accounts.map(({ ownerId, userId, amount }, index) => {
    const entry = {
      chain: STORE_CHAIN,
      seq: first + index,
      time,
      kind: (kind === 'user' ? 'grant' : 'limit') satisfies EntryKind as EntryKind,
      user_id: userId,
      token_id: kind === 'user' ? null : ownerId,
      channel_id: null,
      amount,
      actor,
      reason,
      request_id: null,
    }
    hash = link(key, hash, entryFields(entry))
    return { ...entry, hash }
  })
  for (const chunk of chunksOf(entries, CHUNK)) await trx.insertInto('entries').values(chunk).execute()
  const mac = headMac(key, { name: STORE_CHAIN, seq: head.seq, hash, position: 0, oldestOpen: 0 })
  await trx.updateTable('chains').set({ hash, mac }).where('name', '=', STORE_CHAIN).execute()
}
