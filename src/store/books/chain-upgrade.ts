import { SYSTEM } from '../../domain/actor.ts'
import { type ChainKey, headMac, link } from '../../domain/chain.ts'
import { listStates, type RowState } from '../engine/row-states.ts'
import type { EntryRow } from '../engine/schema.ts'
import type { Trx } from '../engine/store.ts'
import { appendSystemAudit } from '../records/audit.ts'
import { AUDIT_CHAIN, listChains, type StoredHead } from './chains.ts'
import { entryFields } from './entry.ts'

/** The action of the audit log's first keyed record, and of the records with the states of existing rows. */
export const CHAIN_KEYED = 'chain.keyed'
const STATES_A_RECORD = 500

/** Appends the first keyed record of a chain. It follows the unkeyed head, and so protects all earlier records. */
async function closeChain(trx: Trx, key: ChainKey, head: StoredHead, time: number): Promise<void> {
  const entry: Omit<EntryRow, 'hash'> = {
    chain: head.name,
    seq: head.seq + 1,
    time,
    kind: 'keyed',
    user_id: 0,
    token_id: null,
    channel_id: null,
    amount: 0,
    actor: SYSTEM,
    reason: `unkeyed up to record ${head.seq}, ${head.hash}`,
    request_id: null,
  }
  const hash = link(key, head.hash, entryFields(entry))
  await trx
    .insertInto('entries')
    .values({ ...entry, hash })
    .execute()
  const { name } = head
  const mac = headMac(key, { ...head, seq: entry.seq, hash })
  await trx.updateTable('chains').set({ seq: entry.seq, hash, mac }).where('name', '=', name).execute()
}

/**
 * Closes every chain that was started before chains had a key: its head becomes part of its first keyed record. The audit
 * log also records the existing chains, and the state of every row whose changes it covers from now on.
 */
export async function closeUnkeyedChains(trx: Trx, key: ChainKey, time: number): Promise<number> {
  const heads = await listChains(trx)
  const audit = heads.find(({ name }) => name === AUDIT_CHAIN)
  if (!audit) return 0
  const chains = heads.filter(({ name }) => name !== AUDIT_CHAIN)
  for (const head of chains) await closeChain(trx, key, head, time)
  const record = { time, action: CHAIN_KEYED, target: `chain:${AUDIT_CHAIN}` }
  const after = { seq: audit.seq, hash: audit.hash, chains: chains.map(({ name }) => name) }
  await appendSystemAudit(trx, { ...record, after }, [])
  let states: RowState[] = []
  for await (const state of listStates(trx, key)) {
    states.push(state)
    if (states.length < STATES_A_RECORD) continue
    await appendSystemAudit(trx, record, states)
    states = []
  }
  if (states.length > 0) await appendSystemAudit(trx, record, states)
  return heads.length
}
