import { listOpenCanaries, updateCanary } from '../../store/records/canaries.ts'
import type { Changing } from '../server/call.ts'

const END_NOTES = { channel: 'The channel was deleted.', alias: 'The alias was deleted.' } as const

/** Ends the open canaries of deleted channels or aliases, in the transaction of the deletion. */
export async function dropCanariesOf(
  { trx, audit }: Changing,
  { kind, ids, time }: { kind: 'channel' | 'alias'; ids: readonly number[]; time: number },
): Promise<void> {
  for (const row of await listOpenCanaries(trx, kind)) {
    if (!ids.includes(Number(row.subject))) continue
    const end_note = END_NOTES[kind]
    await updateCanary(trx, row.id, { state: 'dropped', ended_time: time, end_note })
    audit({
      action: 'canary.drop',
      target: `canary:${row.id}`,
      before: { state: row.state },
      after: { state: 'dropped', end_note },
    })
  }
}
