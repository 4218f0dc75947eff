import type { IdRule } from './tools/call-id.ts'

/** How a host words chat completions that refuses what it does not know. */
export type ChatDialect = {
  /** Fields that it calls otherwise. */
  readonly renamed: Readonly<Record<string, string>>
  /** Fields that it refuses; what a client asked for by them is lost. */
  readonly refused: readonly string[]
  /** Fields that can be removed without a warning: the host does the same without them. */
  readonly needless: readonly string[]
  /** Its word for «some tool must be called». */
  readonly required: string
  /** The ids of calls that it takes. */
  readonly ids: IdRule
}
