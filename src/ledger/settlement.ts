import { hash } from 'node:crypto'

/** The fields that a settled request and its entry share. */
type Settlement = {
  readonly rid: string | null
  readonly time: number
  readonly userId: number
  readonly tokenId: number | null
  readonly channelId: number | null
  readonly cost: number
}

export const SETTLEMENT_BYTES = 16

/** Short, because verification keeps one in memory for every settlement of a journal. */
export const digestSettlement = ({ rid, time, userId, tokenId, channelId, cost }: Settlement): Buffer =>
  hash('sha256', JSON.stringify([rid, time, userId, tokenId, channelId, cost]), 'buffer').subarray(
    0,
    SETTLEMENT_BYTES,
  )
