import type { AccountId, AccountKind } from '../domain/account.ts'
import { accountsWithSums, listAccounts } from '../store/books/accounts.ts'
import type { EntryRow } from '../store/engine/schema.ts'
import type { Db } from '../store/engine/store.ts'

const RECHECKED_AT_ONCE = 500

type Sum = { credited: number; posted: number }

/** Recomputes every balance from the verified entries. */
export function createBalances(db: Db) {
  const sums: Record<AccountKind, Map<number, Sum>> = { user: new Map(), token: new Map() }

  function sumOf({ kind, ownerId }: AccountId): Sum {
    const sum = sums[kind].get(ownerId) ?? { credited: 0, posted: 0 }
    sums[kind].set(ownerId, sum)
    return sum
  }

  function add(entry: EntryRow): void {
    const user = { kind: 'user', ownerId: entry.user_id } as const
    const token = entry.token_id === null ? undefined : ({ kind: 'token', ownerId: entry.token_id } as const)
    if (entry.kind === 'keyed') return
    if (entry.kind === 'grant') sumOf(user).credited += entry.amount
    else if (entry.kind === 'limit') {
      if (token) sumOf(token).credited += entry.amount
    } else {
      const amount = entry.kind === 'settle' ? entry.amount : -entry.amount
      sumOf(user).posted += amount
      if (token) sumOf(token).posted += amount
    }
  }

  /** Accounts may have changed since their entries were read, so those that differ are compared again. */
  async function driftsAmong(kind: AccountKind, ids: readonly number[]): Promise<string[]> {
    const drifts: string[] = []
    for (let start = 0; start < ids.length; start += RECHECKED_AT_ONCE)
      for (const row of await accountsWithSums(db, kind, ids.slice(start, start + RECHECKED_AT_ONCE)))
        if (row.credited !== row.entries_credited || row.posted !== row.entries_posted)
          drifts.push(
            `${kind}:${row.owner_id}: the account has ${row.credited}/${row.posted} credited/posted, its entries add up to ${row.entries_credited}/${row.entries_posted}`,
          )
    return drifts
  }

  /** `orphans` have entries but no account: it was removed, or a restore lost it. */
  async function verify(): Promise<{ accounts: number; drifts: string[]; orphans: string[] }> {
    const suspects: Record<AccountKind, number[]> = { user: [], token: [] }
    const orphans = { user: new Set(sums.user.keys()), token: new Set(sums.token.keys()) }
    let accounts = 0
    for await (const account of listAccounts(db)) {
      accounts += 1
      orphans[account.kind].delete(account.owner_id)
      const sum = sums[account.kind].get(account.owner_id) ?? { credited: 0, posted: 0 }
      if (sum.credited !== account.credited || sum.posted !== account.posted)
        suspects[account.kind].push(account.owner_id)
    }
    const drifts: string[] = []
    for (const kind of ['user', 'token'] as const) drifts.push(...(await driftsAmong(kind, suspects[kind])))
    const names = [...orphans.user]
      .map(id => `user:${id}`)
      .concat([...orphans.token].map(id => `token:${id}`))
    return { accounts, drifts, orphans: names }
  }

  return { add, verify }
}
