/**
 * The end of a request, as it is journalled and written down. `cost` is what user and token pay; `overrun` what they
 * could not.
 */
export type Settled = {
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

/** A doubt for Root to decide: a channel may have billed for something nobody received. */
export type Doubt = { readonly channelId: number; readonly amount: number; readonly reason: string }

/** The reason of a doubt about usage that a provider reported beyond what is possible. */
export const IMPLAUSIBLE_USAGE = 'implausible_usage'
