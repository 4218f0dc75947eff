import { type Db, transact } from '../engine/store.ts'
import { appendSystemAudit } from './audit.ts'

/** A decision of the gateway about a channel or one of its keys. */
type GatewayDecision = {
  readonly channelId: number
  /** Undefined: the whole channel. */
  readonly keyId?: number | undefined
  readonly status: 1 | 3
  readonly reason: string
  readonly time: number
}

/** Writes the decision. False if it was not written, because an administrator has changed the status. */
export async function decideStatus(db: Db, decision: GatewayDecision): Promise<boolean> {
  const { channelId, keyId, status, reason, time } = decision
  return transact(db, async trx => {
    const before = status === 3 ? 1 : 3
    const changed =
      keyId === undefined
        ? await trx
            .updateTable('channels')
            .set({ status, status_reason: reason })
            .where('id', '=', channelId)
            .where('status', '=', before)
            .returning('id')
            .executeTakeFirst()
        : await trx
            .updateTable('channel_keys')
            .set({ status, reason, disabled_time: status === 3 ? time : 0 })
            .where('channel_id', '=', channelId)
            .where('id', '=', keyId)
            .where('status', '=', before)
            .returning('position')
            .executeTakeFirst()
    if (!changed) return false
    await appendSystemAudit(trx, {
      time,
      action: status === 3 ? 'channel.disable' : 'channel.recover',
      target: `channel:${channelId}`,
      after: { status, reason, ...('position' in changed && { key: changed.position }) },
    })
    return true
  })
}

export async function recordTest(
  db: Db,
  channelId: number,
  test: { time: number; responseMs: number },
): Promise<void> {
  await db
    .updateTable('channels')
    .set({ test_time: test.time, response_time: Math.round(test.responseMs) })
    .where('id', '=', channelId)
    .execute()
}
