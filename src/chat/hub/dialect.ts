import type { IdRule } from './tools/call-id.ts'

/** The dialect of a chat completions host that rejects unknown fields. */
export type ChatDialect = {
  /** Fields with a different name. */
  readonly renamed: Readonly<Record<string, string>>
  /** Fields that the host rejects; their effect is lost. */
  readonly refused: readonly string[]
  /** Fields that can be removed without a warning: the host's default has the same effect. */
  readonly needless: readonly string[]
  /** The host's value for "some tool must be called". */
  readonly required: string
  /** The call ids that the host accepts. */
  readonly ids: IdRule
}
