import type { CanaryMark } from './canary.ts'

/** The channel of a rejected request, and its name in lists by channel. */
export const NO_CHANNEL = 0
export const NO_CHANNEL_NAME = '(rejected)'
/** The name in lists by model if the gateway does not serve the requested model. */
export const NO_MODEL_NAME = '(not served)'

/** A request that the gateway rejected: no provider answered it, and it cost nothing. */
export type Rejection = {
  readonly timeMs: number
  readonly userId: number
  readonly tokenId: number
  readonly tokenName: string
  /** Empty if the gateway does not serve the requested model: names that clients invent must not fill the sums. */
  readonly model: string
  /** The requested model, if the gateway does not serve it. */
  readonly requestedModel?: string | undefined
  readonly requestId: string
  readonly code: string
  readonly status: number
  readonly message: string
  readonly param?: string | undefined
  readonly useTimeMs: number
  readonly isStream: boolean
  readonly address: string
  readonly tags?: Readonly<Record<string, string>> | undefined
  /** The canaries that the request took part in. */
  readonly canaries?: readonly CanaryMark[] | undefined
  /** The channels that could not take the request, and why. */
  readonly passedOver?: readonly { readonly channelId: number; readonly reason: string }[] | undefined
}

/** Further rejections of a token with the same code in the same minute, in one row. */
export type FurtherRejections = {
  readonly first: Rejection
  readonly requests: number
  /** The row that already stands for some of them; undefined: a new one is needed. */
  readonly rowId: number | undefined
}

/** Requests with an unknown credential in a minute, by code. */
export type UnknownCallers = {
  readonly timeMs: number
  readonly code: string
  readonly requests: number
  readonly rowId: number | undefined
}

export type RejectionBatch = {
  /** A batch that is sent again with the same id is written once. */
  readonly id: string
  readonly rows: readonly Rejection[]
  readonly further: readonly FurtherRejections[]
  readonly unknown: readonly UnknownCallers[]
}

/** The ids of the rows that stand for several requests, in the order of the batch. */
export type RejectionRowIds = { readonly further: readonly number[]; readonly unknown: readonly number[] }
