import type { Settled } from '../domain/settled.ts'
import type { Anchor } from './anchor.ts'

/** What the journal keeps of a request, in the order it happens: open, attempt*, progress*, then settle. */

/** The hold, and whom it binds. Written before anything is sent. */
export type OpenRecord = {
  readonly kind: 'open'
  readonly rid: string
  readonly timeMs: number
  readonly userId: number
  readonly tokenId: number
  readonly tokenName: string
  readonly model: string
  readonly amount: number
  /** How much of the hold was taken from a lease of the user or the token; unlimited ones have none. */
  readonly userLeased: number
  readonly tokenLeased: number
  readonly isStream: boolean
  readonly address: string
  /** The video job that is paid with it. */
  readonly videoId?: string
}

/** A channel was about to be sent the request. `estimate` is what it may have cost if nothing more is heard of it. */
export type AttemptRecord = {
  readonly kind: 'attempt'
  readonly rid: string
  readonly channelId: number
  readonly estimate: number
}

/** What a stream has cost so far; the first is written with the first delivered byte. */
export type ProgressRecord = { readonly kind: 'progress'; readonly rid: string; readonly cost: number }

/** The one end of a request. */
export type SettleRecord = { readonly kind: 'settle' } & Settled

/** Nothing was sent: the hold is given back and leaves no entry. */
export type ReleaseRecord = { readonly kind: 'release'; readonly rid: string }

/** Where the chains ended at that moment. It belongs to no request, and recovery passes over it. */
export type AnchorRecord = {
  readonly kind: 'anchor'
  readonly anchor: Anchor
  /** It is in the anchor file too. */
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
