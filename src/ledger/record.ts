import type { Settled } from '../domain/settled.ts'
import type { Anchor } from './anchor.ts'

// The records of a request, in this order: open, attempt*, progress*, then settle or release. The journal stores them as
// JSON, so their field names are part of its format.

/** The hold with its user and token. Written before the request is sent upstream. */
export type OpenRecord = {
  readonly kind: 'open'
  readonly rid: string
  readonly timeMs: number
  readonly userId: number
  readonly tokenId: number
  readonly tokenName: string
  readonly model: string
  readonly amount: number
  /** The part of the hold that was taken from a lease of the user or token; unlimited accounts have no leases. */
  readonly userLeased: number
  readonly tokenLeased: number
  readonly isStream: boolean
  readonly address: string
  /** The video job that the hold pays for. */
  readonly videoId?: string | undefined
}

/** The request was about to be sent to a channel. `estimate` is the possible cost if the outcome stays unknown. */
export type AttemptRecord = {
  readonly kind: 'attempt'
  readonly rid: string
  readonly channelId: number
  readonly estimate: number
}

/** The cost of a stream so far; the first such record is written with the first delivered byte. */
type ProgressRecord = { readonly kind: 'progress'; readonly rid: string; readonly cost: number }

/** The end of a request that was sent. */
export type SettleRecord = { readonly kind: 'settle' } & Settled

/** The end of a request that was never sent: its hold is released, without an entry. */
type ReleaseRecord = { readonly kind: 'release'; readonly rid: string }

/** The heads of the chains at that moment. It belongs to no request, and recovery skips it. */
export type AnchorRecord = {
  readonly kind: 'anchor'
  readonly anchor: Anchor
  /** The anchor is in the anchor file too. */
  readonly isFiled: boolean
}

export type JournalRecord =
  | AnchorRecord
  | OpenRecord
  | AttemptRecord
  | ProgressRecord
  | SettleRecord
  | ReleaseRecord
export type Numbered<R extends JournalRecord = JournalRecord> = { readonly lsn: number; readonly record: R }
