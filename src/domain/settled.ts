/**
 * A settled request. The journal stores it as JSON, so its field names are part of the journal's format. `cost` is the
 * amount that user and token pay; `overrun` is the part of the price that their quota did not cover.
 */
export type Settled = {
  readonly rid: string
  readonly timeMs: number
  readonly userId: number
  readonly tokenId: number
  readonly channelId: number
  readonly cost: number
  readonly overrun: number
  /** The part of the cost that is taken from leases. */
  readonly userLeased: number
  readonly tokenLeased: number
  readonly doubts: readonly UnresolvedCharge[]
  readonly log: UsageLog
  readonly video?: VideoNote | undefined
}

/**
 * The outcome of a video job's submission, saved in the same transaction as the entry. `accepted`: the provider runs the
 * job. `doubt`: it is unknown whether the provider has the job. `lost`: the job has failed and is not searched for.
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
  /** Further details: counts by kind, price, attempts, the source of the count. */
  readonly other: Readonly<Record<string, unknown>>
}

/** An amount that a channel may have billed for a response that the client did not receive. Root resolves it. */
export type UnresolvedCharge = {
  readonly channelId: number
  readonly amount: number
  readonly reason: string
}

/** The reason of an unresolved charge for reported usage that is larger than possible. */
export const IMPLAUSIBLE_USAGE = 'implausible_usage'
