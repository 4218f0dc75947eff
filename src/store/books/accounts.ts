import { sql } from 'kysely'
import type { AccountId, AccountKind } from '../../domain/account.ts'
import { MAX_UNITS, nanosOf } from '../../domain/money.ts'
import { NO_TOKEN } from '../../domain/token.ts'
import { nonEmptyIds } from '../engine/page.ts'
import type { AccountRow, EntryKind } from '../engine/schema.ts'
import type { Db, Trx } from '../engine/store.ts'
import { appendLink, STORE_CHAIN } from './chains.ts'
import { entryFields } from './entry.ts'

export { entryFields }

const MAX_NANOS = nanosOf(MAX_UNITS)
/** The most that an account is credited over its lifetime, so that every sum stays below 2^53. */
const MAX_LIFETIME_NANOS = 9_000_000_000_000_000

type Posting = {
  readonly kind: Extract<EntryKind, 'grant' | 'limit'>
  readonly userId: number
  readonly tokenId?: number
  readonly amount: number
  readonly actor: string
  readonly reason: string
  readonly time: number
}

/** An account starts empty; its first credit is an entry like any other. */
export async function openAccount(trx: Trx, { kind, ownerId }: AccountId, unlimited: boolean): Promise<void> {
  await trx
    .insertInto('accounts')
    .values({
      kind,
      owner_id: ownerId,
      unlimited: unlimited ? 1 : 0,
      credited: 0,
      posted: 0,
      held: 0,
      request_count: 0,
    })
    .execute()
}

export const findAccount = (db: Db, { kind, ownerId }: AccountId): Promise<AccountRow> =>
  db
    .selectFrom('accounts')
    .selectAll()
    .where('kind', '=', kind)
    .where('owner_id', '=', ownerId)
    .executeTakeFirstOrThrow()

/**
 * Locks an account until this transaction ends, so that its values do not change after they are read. An update without
 * changes is used, because both engines support it.
 */
export async function lockAccount(trx: Trx, { kind, ownerId }: AccountId): Promise<void> {
  await trx
    .updateTable('accounts')
    .set(row => ({ held: row.ref('held') }))
    .where('kind', '=', kind)
    .where('owner_id', '=', ownerId)
    .execute()
}

export async function setUnlimited(
  trx: Trx,
  { kind, ownerId }: AccountId,
  unlimited: boolean,
): Promise<void> {
  await trx
    .updateTable('accounts')
    .set({ unlimited: unlimited ? 1 : 0 })
    .where('kind', '=', kind)
    .where('owner_id', '=', ownerId)
    .execute()
}

/**
 * Changes the credit of an account and appends the entry with its author and reason. The management API changes balances
 * only through this function. Returns false without a change if the free amount is too small or the result too large.
 */
export async function post(trx: Trx, posting: Posting): Promise<boolean> {
  const account: AccountId =
    posting.kind === 'grant'
      ? { kind: 'user', ownerId: posting.userId }
      : { kind: 'token', ownerId: posting.tokenId ?? 0 }
  let update = trx
    .updateTable('accounts')
    .set(row => ({ credited: row('credited', '+', posting.amount) }))
    .where('kind', '=', account.kind)
    .where('owner_id', '=', account.ownerId)
  if (posting.amount < 0 && account.kind === 'user')
    // Evaluated from left to right: nested expressions are written without brackets.
    update = update.where(row =>
      row(row(row('credited', '-', row.ref('posted')), '-', row.ref('held')), '>=', -posting.amount),
    )
  if (posting.amount > 0)
    update = update
      .where(row => row(row('credited', '-', row.ref('posted')), '<=', MAX_NANOS - posting.amount))
      .where('credited', '<=', MAX_LIFETIME_NANOS - posting.amount)
  const { numUpdatedRows } = await update.executeTakeFirst()
  if (numUpdatedRows === 0n) return false
  await appendEntry(trx, posting)
  return true
}

export type Charge = Omit<Posting, 'kind'> & {
  readonly tokenId: number
  readonly channelId: number
  readonly requestId: string
}

/** User and token, or the user alone for a request without a token. */
const payersOf = ({ userId, tokenId }: Charge): readonly AccountId[] => [
  { kind: 'user', ownerId: userId },
  ...(tokenId === NO_TOKEN ? [] : [{ kind: 'token' as const, ownerId: tokenId }]),
]

/** Charges user and token without a hold. Returns false if one has too little left: then the caller must roll back. */
export async function charge(
  trx: Trx,
  amounts: Charge,
): Promise<{ isCharged: true } | { isCharged: false; short: AccountKind; free: number }> {
  for (const { kind, ownerId } of payersOf(amounts)) {
    const account = await trx
      .updateTable('accounts')
      .set(row => ({ posted: row('posted', '+', amounts.amount) }))
      .where('kind', '=', kind)
      .where('owner_id', '=', ownerId)
      .returningAll()
      .executeTakeFirstOrThrow()
    const free = account.credited - account.posted - account.held
    if (account.unlimited === 0 && free < 0)
      return { isCharged: false, short: kind, free: free + amounts.amount }
  }
  await appendEntry(trx, { ...amounts, kind: 'settle' })
  return { isCharged: true }
}

/** Refunds a charge to user and token. */
export async function refund(trx: Trx, amounts: Charge): Promise<void> {
  for (const { kind, ownerId } of payersOf(amounts))
    await trx
      .updateTable('accounts')
      .set(row => ({ posted: row('posted', '-', amounts.amount) }))
      .where('kind', '=', kind)
      .where('owner_id', '=', ownerId)
      .execute()
  await appendEntry(trx, { ...amounts, kind: 'refund' })
}

type Entry = Omit<Posting, 'kind'> & {
  readonly kind: EntryKind
  readonly channelId?: number
  readonly requestId?: string
}

async function appendEntry(trx: Trx, { userId, tokenId, ...posting }: Entry): Promise<void> {
  const entry = {
    chain: STORE_CHAIN,
    time: posting.time,
    kind: posting.kind,
    user_id: userId,
    token_id: tokenId === undefined || tokenId === NO_TOKEN ? null : tokenId,
    channel_id: posting.channelId ?? null,
    amount: posting.amount,
    actor: posting.actor,
    reason: posting.reason,
    request_id: posting.requestId ?? null,
  }
  const { seq, hash } = await appendLink(trx, STORE_CHAIN, next => entryFields({ ...entry, seq: next }))
  await trx
    .insertInto('entries')
    .values({ ...entry, seq, hash })
    .execute()
}

/** The next entries of a chain, in its order. */
export const entriesAfter = (db: Db, chain: string, seq: number, limit: number) =>
  db
    .selectFrom('entries')
    .selectAll()
    .where('chain', '=', chain)
    .where('seq', '>', seq)
    .orderBy('seq')
    .limit(limit)
    .execute()

/**
 * Accounts with the sums of their entries. One statement reads both, so that they are consistent under concurrent writes.
 */
export function accountsWithSums(db: Db, kind: AccountKind, ownerIds: readonly number[]) {
  const owner = kind === 'user' ? 'user_id' : 'token_id'
  const credit: EntryKind = kind === 'user' ? 'grant' : 'limit'
  const sums = db
    .selectFrom('entries')
    .where(owner, 'in', nonEmptyIds(ownerIds))
    .groupBy(owner)
    .select([
      `${owner} as id`,
      sql<number>`sum(case when kind = ${credit} then amount else 0 end)`.as('credited'),
      sql<number>`sum(case kind when 'settle' then amount when 'refund' then -amount else 0 end)`.as(
        'posted',
      ),
    ])
  return db
    .selectFrom('accounts')
    .leftJoin(sums.as('sums'), 'sums.id', 'accounts.owner_id')
    .where('accounts.kind', '=', kind)
    .where('accounts.owner_id', 'in', nonEmptyIds(ownerIds))
    .select(['accounts.owner_id', 'accounts.credited', 'accounts.posted'])
    .select(({ fn, val }) => [
      fn.coalesce('sums.credited', val(0)).as('entries_credited'),
      fn.coalesce('sums.posted', val(0)).as('entries_posted'),
    ])
    .execute()
}

const BATCH = 1_000

/** Every account, deleted owners included, in batches that keep memory flat. */
export async function* listAccounts(db: Db): AsyncGenerator<AccountRow> {
  for (const kind of ['user', 'token'] as const) {
    let last = 0
    for (;;) {
      const rows = await db
        .selectFrom('accounts')
        .selectAll()
        .where('kind', '=', kind)
        .where('owner_id', '>', last)
        .orderBy('owner_id')
        .limit(BATCH)
        .execute()
      yield* rows
      last = rows.at(-1)?.owner_id ?? last
      if (rows.length < BATCH) break
    }
  }
}
