import { hash } from 'node:crypto'

/** What a settled request and its entry have in common. */
export type Settlement = {
  readonly rid: string | null
  readonly time: number
  readonly userId: number
  readonly tokenId: number | null
  readonly channelId: number | null
  readonly cost: number
}

export const SETTLEMENT_BYTES = 16

/** Short enough to keep one for every settlement of a journal while its entries are walked. */
export const digestSettlement = ({ rid, time, userId, tokenId, channelId, cost }: Settlement): Buffer =>
  hash('sha256', JSON.stringify([rid, time, userId, tokenId, channelId, cost]), 'buffer').subarray(
    0,
    SETTLEMENT_BYTES,
  )
