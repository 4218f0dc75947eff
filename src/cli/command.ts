import type { Digest } from '../identity/credentials.ts'
import type { Keyring } from '../identity/keyring.ts'
import type { Passwords } from '../identity/passwords.ts'
import type { Db, Engine, StoreOptions } from '../store/engine/store.ts'

/** A command failed; the message is for the person who typed it. */
export class CommandError extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'CommandError'
  }
}

export type OperationDeps = {
  readonly db: Db
  readonly engine: Engine
  /** The options to open a further connection to the store. */
  readonly storeOptions: StoreOptions
  readonly version: string
  readonly keyring: Keyring
  readonly digest: Digest
  readonly passwords: Passwords
  readonly now: () => number
  /** Invalidates the caches of a running relay, by targets of audit records. */
  readonly announce: (targets: readonly string[]) => Promise<void>
  readonly dataDir: string
  /** The anchor file of this gateway; undefined if anchors go to the log. */
  readonly anchorFile: string | undefined
  /** The secret is in the data directory, not in the environment. */
  readonly isSecretKept: boolean
}

export type Report = {
  readonly ok: boolean
  readonly lines: readonly string[]
  /** The lines that report problems. */
  readonly faults?: readonly string[]
}
