import { SYSTEM } from '../domain/actor.ts'
import { mask } from '../domain/text.ts'
import { NEVER } from '../domain/token.ts'
import { newAccessToken, newPassword } from '../identity/credentials.ts'
import { OPERATOR } from '../identity/passwords.ts'
import { verifyChain } from '../ledger/verify.ts'
import { deleteAccessTokensOf, insertAccessToken } from '../store/access-tokens.ts'
import { accountsWithSums, entriesAfter, entryFields, listAccounts } from '../store/accounts.ts'
import { appendAudit, auditAfter, auditFields } from '../store/audit.ts'
import { AUDIT_CHAIN, findChain, listChains } from '../store/chains.ts'
import { appliedPositions } from '../store/positions.ts'
import type { AccountRow, AuditRow, EntryRow } from '../store/schema.ts'
import { endSessions } from '../store/sessions.ts'
import { type Trx, transact } from '../store/store.ts'
import { findUserByName, updateUser } from '../store/users.ts'
import { createBackup } from './backup.ts'
import { CommandError, type OperationDeps, type Report } from './command.ts'
import type { JournalJob, JournalReport } from './journal-thread.ts'
import { createRotation } from './rotation.ts'
import { runThread } from './thread.ts'

const RECHECKED_AT_ONCE = 500

/** What the operator's commands do, on a running server or without one. */
export function createOperations(deps: OperationDeps) {
  const { db, now, passwords, digest } = deps

  async function mustFind(username: string) {
    const user = await findUserByName(db, username)
    if (!user) throw new CommandError(`there is no user named "${username}"`)
    return user
  }

  const record = (trx: Trx, action: string, target: string) =>
    appendAudit(trx, {
      time: now(),
      actor_id: 0,
      actor_name: SYSTEM,
      via: `command:${action}`,
      address: '',
      request_id: '',
      action,
      target,
      before: null,
      after: null,
    })

  async function resetPassword({
    username,
    password = newPassword(),
    revokeAccessTokens = false,
  }: {
    username: string
    password?: string
    revokeAccessTokens?: boolean
  }) {
    const length = [...password].length
    if (length < 8 || length > 128) throw new CommandError('a password has 8 to 128 characters')
    const user = await mustFind(username)
    const password_hash = await passwords.hash(password, OPERATOR)
    await transact(db, async trx => {
      // Resetting is how an operator gets back in, so a disabled user is enabled with it.
      await updateUser(trx, user, { password_hash, status: 1 })
      await endSessions(trx, user.id, now())
      await record(trx, 'user.password', `user:${user.id}`)
      if (!revokeAccessTokens) return
      await deleteAccessTokensOf(trx, user.id)
      await record(trx, 'access_token.revoke_all', `user:${user.id}`)
    })
    await deps.announce([`user:${user.id}`])
    return { password }
  }

  async function accessToken({ username, name }: { username: string; name: string }) {
    const user = await mustFind(username)
    const token = newAccessToken()
    await transact(db, async trx => {
      const id = await insertAccessToken(trx, {
        user_id: user.id,
        name,
        digest: digest(token),
        hint: mask(token),
        created_time: now(),
        expired_time: NEVER,
      })
      await record(trx, 'access_token.create', `access_token:${id}`)
    })
    return { token }
  }

  async function verifyAudit() {
    return verifyChain<AuditRow>({
      name: AUDIT_CHAIN,
      head: () => findChain(db, AUDIT_CHAIN),
      after: (seq, limit) => auditAfter(db, seq, limit),
      fieldsOf: auditFields,
    })
  }

  /** Every chain of entries, and every balance computed anew from them. */
  async function verifyLedger() {
    const sums = new Map<string, { credited: number; posted: number }>()
    const sumOf = (account: string) => {
      const sum = sums.get(account) ?? { credited: 0, posted: 0 }
      sums.set(account, sum)
      return sum
    }
    const add = (entry: EntryRow) => {
      if (entry.kind === 'grant') sumOf(`user:${entry.user_id}`).credited += entry.amount
      else if (entry.kind === 'limit') sumOf(`token:${entry.token_id}`).credited += entry.amount
      else {
        const amount = entry.kind === 'settle' ? entry.amount : -entry.amount
        sumOf(`user:${entry.user_id}`).posted += amount
        if (entry.token_id !== null) sumOf(`token:${entry.token_id}`).posted += amount
      }
    }
    const reports = []
    for (const { name } of await listChains(db)) {
      if (name === AUDIT_CHAIN) continue
      reports.push(
        await verifyChain<EntryRow>(
          {
            name,
            head: () => findChain(db, name),
            after: (seq, limit) => entriesAfter(db, name, seq, limit),
            fieldsOf: entryFields,
          },
          add,
        ),
      )
    }
    const suspects: AccountRow[] = []
    for await (const account of listAccounts(db)) {
      const sum = sumOf(`${account.kind}:${account.owner_id}`)
      if (sum.credited !== account.credited || sum.posted !== account.posted) suspects.push(account)
    }
    return { reports, drifts: await driftsAmong(suspects), accounts: sums.size }
  }

  /** Accounts may have moved since their entries were walked, so those that differ are looked at once more. */
  async function driftsAmong(suspects: readonly AccountRow[]): Promise<string[]> {
    const drifts: string[] = []
    for (const kind of ['user', 'token'] as const) {
      const ids = suspects.filter(account => account.kind === kind).map(account => account.owner_id)
      for (let start = 0; start < ids.length; start += RECHECKED_AT_ONCE)
        for (const row of await accountsWithSums(db, kind, ids.slice(start, start + RECHECKED_AT_ONCE)))
          if (row.credited !== row.entries_credited || row.posted !== row.entries_posted)
            drifts.push(
              `${kind}:${row.owner_id}: the account says ${row.credited}/${row.posted}, its entries ${row.entries_credited}/${row.entries_posted}`,
            )
    }
    return drifts
  }

  /** The files of the nodes of this machine; those of other machines are verified there. */
  async function verifyJournals() {
    const applied = Object.fromEntries(await appliedPositions(db))
    const job: JournalJob = { dataDir: deps.dataDir, applied }
    return runThread<JournalReport[]>('journal-thread', job)
  }

  async function verify({ auditOnly = false }: { auditOnly?: boolean }): Promise<Report> {
    const audit = await verifyAudit()
    const ledger = auditOnly ? { reports: [], drifts: [], accounts: 0 } : await verifyLedger()
    const lines = [audit, ...ledger.reports].map(({ chain, links, fault }) =>
      fault === undefined
        ? `${chain}: ${links} records, unbroken`
        : `${chain}: BROKEN after ${links} records: ${fault}`,
    )
    const journals = auditOnly ? [] : await verifyJournals()
    lines.push(...journals.map(({ line }) => line))
    if (!auditOnly)
      lines.push(
        ledger.drifts.length === 0
          ? `balances: ${ledger.accounts} accounts, exact`
          : `balances: ${ledger.drifts.length} do not match`,
      )
    lines.push(...ledger.drifts.slice(0, 20))
    const ok =
      [audit, ...ledger.reports].every(report => report.fault === undefined) &&
      ledger.drifts.length === 0 &&
      journals.every(journal => journal.ok)
    return { ok, lines }
  }

  const rotation = createRotation(deps, record)
  return { resetPassword, accessToken, verify, rotateSecret: rotation, backup: createBackup(deps) }
}

export type Operations = ReturnType<typeof createOperations>
