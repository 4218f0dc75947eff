import { actorLabel } from '../../domain/actor.ts'
import { notFound, Refusal } from '../../domain/errors.ts'
import { unitsLeft, unitsUsed, usdText } from '../../domain/money.ts'
import { charge } from '../../store/books/accounts.ts'
import { listEntries, readLedgerHealth } from '../../store/books/entries.ts'
import { closeSuspense, findSuspense, listSuspense } from '../../store/books/suspense.ts'
import type { EntryRow, SuspenseRow } from '../../store/engine/schema.ts'
import { addVideoCost } from '../../store/records/videos.ts'
import { insertLog, LOG_TYPE } from '../../store/usage/logs.ts'
import type { ledgerContract } from '../contract/ledger.ts'
import type { Handlers } from '../server/call.ts'
import type { Deps } from '../server/deps.ts'
import { markIfStale } from '../server/freshness.ts'
import { presentPage } from '../server/page.ts'

const presentSuspense = (row: SuspenseRow) => ({
  id: row.id,
  time: row.time,
  request_id: row.request_id,
  user_id: row.user_id,
  token_id: row.token_id,
  channel_id: row.channel_id,
  quota: unitsUsed(row.amount),
  cost: usdText(row.amount),
  reason: row.reason,
  is_open: row.closed_time === null,
  closed_time: row.closed_time,
  closed_by: row.closed_by,
  closed_as: row.closed_as,
  closed_reason: row.closed_reason,
})

export const presentEntry = ({ hash: _hash, amount, ...entry }: EntryRow) => ({
  ...entry,
  amount: usdText(amount),
})

/** The books as administrators see them: whether they are consistent, and which charges are unresolved. */
export function createLedgerHandlers({
  db,
  now,
  ledger,
  verify,
  metrics,
}: Deps): Handlers<typeof ledgerContract> {
  return {
    verifyLedger: async ({ reply }) => {
      await markIfStale(reply, ledger.catchUp())
      const { ok, lines, faults = [] } = await verify({})
      return { ok, lines: [...lines], faults: [...faults] }
    },

    listEntries: async ({ actor, query: { paging, user_id, token_id } }) => {
      const filter = { userId: user_id ?? actor.id, tokenId: token_id }
      return presentPage(await listEntries(db, filter, paging), paging, presentEntry)
    },

    ledgerHealth: async ({ reply }) => {
      await markIfStale(reply, ledger.catchUp())
      const { entries, leased, suspense, nodes } = await readLedgerHealth(db)
      return {
        entries,
        leased: usdText(leased),
        suspense: { ...suspense, amount: usdText(suspense.amount) },
        nodes: nodes.map(node => ({
          id: node.id,
          started_time: node.started_time,
          applied: node.applied_lsn,
          leased: usdText(node.leased),
          accounts: node.accounts,
        })),
      }
    },

    listSuspense: async ({ query: { paging, open } }) =>
      presentPage(await listSuspense(db, open ?? false, paging), paging, presentSuspense),

    closeSuspense: async ({ actor, params, body, change }) => {
      const openCharge = await findSuspense(db, params.id)
      if (!openCharge) throw notFound('unresolved charge')
      await ledger.flushAndReturn({ kind: 'user', ownerId: openCharge.user_id })
      await ledger.flushAndReturn({ kind: 'token', ownerId: openCharge.token_id })
      const resolved = await change(async ({ trx, audit }) => {
        const closed = await closeSuspense(trx, params.id, {
          closed_time: now(),
          closed_by: actorLabel(actor),
          closed_as: body.action,
          closed_reason: body.reason,
        })
        if (!closed) throw new Refusal('conflict', 'This charge is already resolved.')
        if (body.action === 'charge') {
          await addVideoCost(trx, {
            userId: closed.user_id,
            requestId: closed.request_id,
            amount: closed.amount,
          })
          const outcome = await charge(trx, {
            userId: closed.user_id,
            tokenId: closed.token_id,
            channelId: closed.channel_id,
            amount: closed.amount,
            requestId: closed.request_id,
            actor: actorLabel(actor),
            reason: body.reason,
            time: now(),
          })
          if (!outcome.isCharged)
            throw new Refusal(
              'conflict',
              `The ${outcome.short} has ${unitsLeft(Math.max(0, outcome.free))} units available; the charge is ${unitsUsed(closed.amount)} units. Add quota first, or write the charge off.`,
            )
          await insertLog(trx, {
            created_time: now(),
            type: LOG_TYPE.consume,
            user_id: closed.user_id,
            token_id: closed.token_id,
            channel_id: closed.channel_id,
            cost: closed.amount,
            content: body.reason,
            request_id: closed.request_id,
            other: JSON.stringify({ source: 'suspense' }),
          })
        }
        audit({
          action: `suspense.${body.action}`,
          target: `suspense:${closed.id}`,
          before: presentSuspense(openCharge),
          after: presentSuspense(closed),
        })
        return presentSuspense(closed)
      })
      if (body.action === 'charge') metrics.onLateCharge(openCharge.amount)
      return resolved
    },
  }
}
