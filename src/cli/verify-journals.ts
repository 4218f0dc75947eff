import { digestSettlement, SETTLEMENT_BYTES } from '../ledger/settlement.ts'
import type { EntryRow } from '../store/engine/schema.ts'

/** Collects the digests of a chain's last settlements, to compare them with those of a journal. */
export function createSettlementTail(settled: Uint8Array, headSeq: number) {
  const expected = Buffer.from(settled)
  const size = expected.length / SETTLEMENT_BYTES
  const digests = Buffer.alloc(expected.length)
  const seqs = new Float64Array(size)
  let count = 0

  return {
    meet(entry: EntryRow): void {
      // Ignore later entries, which were written after the journal was read.
      if (size === 0 || entry.kind !== 'settle' || entry.seq > headSeq) return
      const digest = digestSettlement({
        rid: entry.request_id,
        time: entry.time,
        userId: entry.user_id,
        tokenId: entry.token_id,
        channelId: entry.channel_id,
        cost: entry.amount,
      })
      digest.copy(digests, (count % size) * SETTLEMENT_BYTES)
      seqs[count % size] = entry.seq
      count += 1
    },
    fault(): string | undefined {
      if (count < size) return `the journal has ${size} settled requests, the chain has ${count}`
      for (let index = 0; index < size; index++) {
        const place = (count + index) % size
        const isSame =
          digests.compare(
            expected,
            index * SETTLEMENT_BYTES,
            (index + 1) * SETTLEMENT_BYTES,
            place * SETTLEMENT_BYTES,
            (place + 1) * SETTLEMENT_BYTES,
          ) === 0
        if (!isSame)
          return `record ${seqs[place]} differs from the request that the journal settled at this position`
      }
      return undefined
    },
    size,
  }
}

export type SettlementTail = ReturnType<typeof createSettlementTail>
