/** The filters of the page, which are in its URL. */
export type AlertFilters = {
  readonly p?: number | undefined
  readonly tab?: string | undefined
  readonly status?: string | undefined
}
