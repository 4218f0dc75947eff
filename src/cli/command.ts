import type { Digest } from '../identity/credentials.ts'
import type { Keyring } from '../identity/keyring.ts'
import type { Passwords } from '../identity/passwords.ts'
import type { Db, Engine, StoreOptions } from '../store/engine/store.ts'

/** A command that cannot do what it was asked; its message is for the person who typed it. */
export class CommandError extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'CommandError'
  }
}

export type OperationDeps = {
  readonly db: Db
  readonly engine: Engine
  /** How whoever needs a connection of its own opens the store. */
  readonly storeOptions: StoreOptions
  readonly version: string
  readonly keyring: Keyring
  readonly digest: Digest
  readonly passwords: Passwords
  readonly now: () => number
  /** Tells a running relay what was changed, as audit records name it. */
  readonly announce: (targets: readonly string[]) => Promise<void>
  readonly dataDir: string
  /** Where this gateway writes its anchors; undefined when they go to the log. */
  readonly anchorFile: string | undefined
  /** The secret lives in the data directory, not in the environment. */
  readonly isSecretKept: boolean
}

export type Report = {
  readonly ok: boolean
  readonly lines: readonly string[]
  /** Those of the lines that say what does not hold. */
  readonly faults?: readonly string[]
}
