import type { CanaryKind, CanarySide, CanarySplit, CanaryState } from './canary.ts'
import type { ChangedField } from './config-change.ts'

/** A canary as the commands get it; the API has more fields. */
export type CanarySummary = {
  readonly id: number
  readonly kind: CanaryKind
  readonly name: string
  readonly state: CanaryState
  readonly share: number
  readonly split_by: CanarySplit
  readonly token_ids: readonly number[] | null
  readonly round: number
  readonly note: string
  readonly fields: readonly ChangedField[]
  readonly drift: readonly string[]
}

type Percentiles = { readonly p50: number; readonly p95: number } | null

type CanarySideResult = {
  readonly requests: number
  readonly errors: number
  readonly error_rate: number | null
  readonly cost_per_request: string | null
  readonly latency_ms: Percentiles
  readonly first_token_ms: Percentiles
}

export type ShadowResult = {
  readonly requests: number
  readonly cost: string
  readonly shadow_cost: string
  readonly difference: string
}

export type CanaryResult = CanarySummary & {
  readonly comparison: ({ readonly round: number } & Readonly<Record<CanarySide, CanarySideResult>>) | null
  readonly shadow: ShadowResult | null
}

/** The operations behind `sluice canary …`. Inputs are bodies of the API, which validates them. */
export type CanaryCommands = {
  list(input: {
    readonly state: 'open' | undefined
    readonly limit: number
  }): Promise<readonly CanarySummary[]>
  start(input: { readonly body: object; readonly alias?: string | undefined }): Promise<CanarySummary>
  show(input: {
    readonly id: number
    readonly group?: string | undefined
  }): Promise<CanaryResult & { readonly report?: readonly (ShadowResult & { readonly name: string })[] }>
  update(input: { readonly body: object }): Promise<CanarySummary>
  act(input: {
    readonly id: number
    readonly action: 'pause' | 'resume' | 'promote' | 'drop'
    readonly body?: object
  }): Promise<CanarySummary>
}
