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

/** A doubt for Root to decide: a channel may have billed for something nobody received. */
export type Doubt = { readonly channelId: number; readonly amount: number; readonly reason: string }

/** The one end of a request. `cost` is what user and token pay; `overrun` what they could not. */
export type SettleRecord = {
  readonly kind: 'settle'
  readonly rid: string
  readonly timeMs: number
  readonly userId: number
  readonly tokenId: number
  readonly channelId: number
  readonly cost: number
  readonly overrun: number
  /** How much of the cost comes out of leases. */
  readonly userLeased: number
  readonly tokenLeased: number
  readonly doubts: readonly Doubt[]
  readonly log: UsageLog
  readonly video?: VideoNote
}

/**
 * What the end of a hold means to the video job it was for: written to the job together with the entry. `accepted`: the
 * provider has it; `doubt`: nobody holds money for it any longer, and nobody knows; `lost`: it is given up.
 */
export type VideoNote = { readonly id: string } & (
  | { readonly outcome: 'accepted'; readonly upstreamIds: readonly string[] }
  | { readonly outcome: 'doubt' }
  | { readonly outcome: 'lost'; readonly code: string; readonly message: string }
)

/** The usage row of a request. */
export type UsageLog = {
  readonly tokenName: string
  readonly model: string
  readonly promptTokens: number
  readonly completionTokens: number
  readonly useTimeMs: number
  readonly isStream: boolean
  readonly address: string
  readonly isError: boolean
  readonly content: string
  readonly upstreamRequestId: string
  /** Everything else worth knowing of it: counts by kind, price, attempts, where the count came from. */
  readonly other: Readonly<Record<string, unknown>>
}

/** Nothing was sent: the hold is given back and leaves no entry. */
export type ReleaseRecord = { readonly kind: 'release'; readonly rid: string }

export type JournalRecord = OpenRecord | AttemptRecord | ProgressRecord | SettleRecord | ReleaseRecord
export type Numbered<R extends JournalRecord = JournalRecord> = { readonly lsn: number; readonly record: R }
