import type { CanaryCommands } from '../domain/canary-command.ts'
import type {
  ApplyInput,
  ApplyResult,
  ExportResult,
  RevisionDifference,
  RevisionSummary,
  RollbackInput,
  RollbackReport,
  WholeRevision,
} from '../domain/config-change.ts'
import type { ImportReport, ImportRequest } from '../domain/import.ts'
import type { Digest } from '../identity/credentials.ts'
import type { Keyring } from '../identity/keyring.ts'
import type { Passwords } from '../identity/passwords.ts'
import type { Db, Engine, StoreOptions } from '../store/engine/store.ts'

/** A command failed. The message is for the operator. */
export class CommandError extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'CommandError'
  }
}

export type OperationDeps = {
  readonly db: Db
  readonly engine: Engine
  /** For operations that open a connection of their own. */
  readonly storeOptions: StoreOptions
  readonly version: string
  readonly keyring: Keyring
  readonly digest: Digest
  readonly passwords: Passwords
  readonly now: () => number
  /** Invalidates what a running relay has cached of the targets, which are named as in audit records. */
  readonly announce: (targets: readonly string[]) => Promise<unknown>
  readonly configuration: Configuration
  /** Explains why a request failed. */
  readonly explain: (text: string) => Promise<RequestExplanation>
  /** Imports from another gateway. */
  readonly importFrom: (request: ImportRequest) => Promise<ImportReport>
  /** The URL of the running gateway in this process; undefined if none runs. */
  readonly address?: (() => string | undefined) | undefined
  readonly dataDir: string
  /** The anchor file of this gateway; undefined if anchors go to the log. */
  readonly anchorFile: string | undefined
  /** The secret is in the data directory, not in the environment. */
  readonly isSecretInFile: boolean
  /** The workers of the running gateway read that secret again; undefined without workers. */
  readonly reloadSecret?: (() => Promise<void>) | undefined
}

/** The configuration as a whole (docs/reference/configuration-file.md: Applying a file). */
export type Configuration = {
  apply(input: ApplyInput): Promise<ApplyResult>
  export(): Promise<ExportResult>
  readonly revisions: {
    list(paging: { readonly page: number; readonly pageSize: number }): Promise<{
      readonly items: readonly RevisionSummary[]
    }>
    get(revision: number): Promise<WholeRevision>
    /** To the last revision by default. */
    diff(from: number, to: number | undefined): Promise<RevisionDifference>
  }
  rollback(input: RollbackInput): Promise<RollbackReport>
  readonly canaries: CanaryCommands
}

/** Why a request failed (docs/reference/management-api.md: Request explanation). */
export type RequestExplanation = {
  readonly request: { readonly request_id: string; readonly created_at: number } | null
  readonly rule: string
  readonly sentences: readonly string[]
}

/** The results of saved tests (docs/reference/management-api.md: Kept bodies). */
export type TestRun = {
  readonly passed: number
  readonly failed: number
  readonly results: readonly {
    readonly name: string
    readonly passed: boolean
    readonly reason: string
    readonly model: string
    readonly cost: string
    readonly ms: number
  }[]
}

export type Report = {
  readonly ok: boolean
  readonly lines: readonly string[]
  /** The lines that report a failed check. */
  readonly faults?: readonly string[]
}
