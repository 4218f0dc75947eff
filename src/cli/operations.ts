import { SYSTEM } from '../domain/actor.ts'
import { mask } from '../domain/text.ts'
import { NEVER } from '../domain/token.ts'
import { newAccessToken, newPassword } from '../identity/credentials.ts'
import { verifyChain } from '../ledger/verify.ts'
import { insertAccessToken } from '../store/access-tokens.ts'
import { entriesAfter, entryFields, listAccounts } from '../store/accounts.ts'
import { appendAudit, auditAfter, auditFields } from '../store/audit.ts'
import { AUDIT_CHAIN, findChain, listChains } from '../store/chains.ts'
import type { AuditRow, EntryRow } from '../store/schema.ts'
import { endSessions } from '../store/sessions.ts'
import type { Trx } from '../store/store.ts'
import { findUserByName, updateUser } from '../store/users.ts'
import { CommandError, type OperationDeps, type Report } from './command.ts'
import { createRotation } from './rotation.ts'

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
  }: {
    username: string
    password?: string
  }) {
    const length = [...password].length
    if (length < 8 || length > 128) throw new CommandError('a password has 8 to 128 characters')
    const user = await mustFind(username)
    const password_hash = await passwords.hash(password)
    await db.transaction().execute(async trx => {
      // Resetting is how an operator gets back in, so a disabled user is enabled with it.
      await updateUser(trx, user, { password_hash, status: 1 })
      await endSessions(trx, user.id, now())
      await record(trx, 'user.password', `user:${user.id}`)
    })
    return { password }
  }

  async function accessToken({ username, name }: { username: string; name: string }) {
    const user = await mustFind(username)
    const token = newAccessToken()
    await db.transaction().execute(async trx => {
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
      head: await findChain(db, AUDIT_CHAIN),
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
    for (const { name, ...head } of await listChains(db)) {
      if (name === AUDIT_CHAIN) continue
      reports.push(
        await verifyChain<EntryRow>(
          {
            name,
            head,
            after: (seq, limit) => entriesAfter(db, name, seq, limit),
            fieldsOf: entryFields,
          },
          add,
        ),
      )
    }
    const drifts: string[] = []
    for await (const account of listAccounts(db)) {
      const name = `${account.kind}:${account.owner_id}`
      const sum = sumOf(name)
      if (sum.credited !== account.credited || sum.posted !== account.posted)
        drifts.push(
          `${name}: the account says ${account.credited}/${account.posted}, its entries ${sum.credited}/${sum.posted}`,
        )
    }
    return { reports, drifts, accounts: sums.size }
  }

  async function verify({ auditOnly = false }: { auditOnly?: boolean }): Promise<Report> {
    const audit = await verifyAudit()
    const ledger = auditOnly ? { reports: [], drifts: [], accounts: 0 } : await verifyLedger()
    const lines = [audit, ...ledger.reports].map(({ chain, links, fault }) =>
      fault === undefined
        ? `${chain}: ${links} records, unbroken`
        : `${chain}: BROKEN after ${links} records: ${fault}`,
    )
    if (!auditOnly)
      lines.push(
        ledger.drifts.length === 0
          ? `balances: ${ledger.accounts} accounts, exact`
          : `balances: ${ledger.drifts.length} do not match`,
      )
    lines.push(...ledger.drifts.slice(0, 20))
    const ok =
      [audit, ...ledger.reports].every(report => report.fault === undefined) && ledger.drifts.length === 0
    return { ok, lines }
  }

  const rotation = createRotation(deps, record)
  return { resetPassword, accessToken, verify, rotateSecret: rotation }
}

export type Operations = ReturnType<typeof createOperations>
