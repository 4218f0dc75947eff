import type { UsageItem } from '../../api/contract.ts'

/** Row types of the API. */
export const ROW = { topUp: 1, request: 2, management: 3, system: 4, error: 5, refund: 6, signIn: 7 } as const

/** What a provider reported about a failed attempt. */
export type ReportedFailure = {
  readonly code?: string
  readonly message?: string
  readonly request_id?: string
  readonly retry_after_s?: number
}
type Attempt = {
  readonly channel: number
  readonly status: number | string
  readonly ms: number
  /** The model name that was sent, if it is not the requested one. */
  readonly sent_model?: string
  readonly provider?: ReportedFailure
}
type PassedOver = { readonly channelId?: number; readonly channel_id?: number; readonly reason?: string }

/** The JSON in the column `other`. */
export type Other = {
  readonly source?: string
  readonly frt?: number
  readonly price?: string
  readonly priced_as?: string
  readonly unpriced?: boolean
  readonly error_code?: string
  /** The gateway rejected the request: no provider answered it. */
  readonly rejected?: boolean
  readonly upstream_model_name?: string
  /** Of a rejected request, if the gateway does not serve the model. */
  readonly requested_model?: string
  readonly cache_tokens?: number
  readonly cache_write_tokens?: number
  readonly reasoning_tokens?: number
  readonly overrun?: number
  readonly warnings?: readonly string[]
  readonly tags?: Readonly<Record<string, string>>
  readonly trace?: { readonly attempts?: readonly Attempt[]; readonly passed_over?: readonly PassedOver[] }
}

export function otherOf({ other }: Pick<UsageItem, 'other'>): Other {
  try {
    return JSON.parse(other)
  } catch {
    return {}
  }
}

/** A failed request that was billed has type 2, like every billed request. */
export const isFailed = (row: UsageItem) =>
  row.type === ROW.error || (row.type === ROW.request && otherOf(row).error_code !== undefined)
export const isRejected = (row: UsageItem) => row.type === ROW.error && otherOf(row).rejected === true
export const isRequest = ({ type }: UsageItem) => type === ROW.request || type === ROW.error
