/** An import from another gateway, as the command asks for it and reports it (docs/moving/README.md: The report). */

export type ImportNote = {
  /** `user`, `token`, `channel`, `price`, `log`, `source`. */
  readonly area: string
  /** The row in the other gateway: `user 7 "alice"`. */
  readonly subject: string
  readonly message: string
}

export type ImportCounts = {
  created: number
  changed: number
  unchanged: number
  skipped: number
}

export type ImportReport = {
  readonly source: string
  readonly dry_run: boolean
  readonly counts: Readonly<Record<string, ImportCounts>>
  readonly notes: readonly ImportNote[]
  /** Notes beyond the maximum, which are only counted. */
  readonly notes_omitted: number
}

/** The whole database of another gateway. */
export type GatewayRequest = {
  readonly kind: 'new-api' | 'one-api'
  /** An SQLite file, or the URL of a database. */
  readonly from: string
}

/** The configuration of LiteLLM, with its included files and environment variables resolved, and its database. */
export type LiteLlmRequest = {
  readonly kind: 'litellm'
  readonly config: Readonly<Record<string, unknown>>
  readonly database?: string
}

/** A list of prices. */
export type PriceRequest = {
  /** Also replaces prices that were set here, or come from another source. */
  readonly isReplacing: boolean
} & (
  | {
      readonly kind: 'openrouter'
      /** The response of its list of models. */
      readonly models: unknown
      /** Also models that no channel serves. */
      readonly isWhole: boolean
    }
  | { readonly kind: 'csv'; readonly text: string }
)

export type ImportRequest = (GatewayRequest | LiteLlmRequest | PriceRequest) & {
  /** The name under which the source is remembered; its kind by default. */
  readonly name?: string
  readonly dryRun: boolean
  /** Usage rows of so many days. */
  readonly logDays?: number
}

/** Whether LiteLLM's key of a Vertex channel is the path of a file, and not the JSON of a service account. */
export const isKeyFile = (key: string): boolean => /^[^{]+\.json$/.test(key)
