import type { AccountId } from '../../domain/account.ts'
import type { Keyring } from '../../identity/keyring.ts'
import type { Db, Engine } from '../../store/engine/store.ts'
import type { RelayDeps } from '../request.ts'
import type { Vendor } from './vendor.ts'

/** What video jobs need beside what every request of the relay does. */
export type VideoDeps = RelayDeps & {
  readonly db: Db
  readonly engine: Engine
  readonly keyring: Keyring
  readonly nodeId: string
  readonly vendor: Vendor
  /** Before something is charged in the store: what nodes have leased of an account goes back there. */
  flushAndReturn(account: AccountId): Promise<void>
  /** How long a submission that nobody answered is looked for. */
  readonly doubtMs: number
  /** A job that has not ended by then has failed. */
  readonly deadlineMs: number
  /** The path prefix behind a proxy. */
  readonly basePath: string
  onTrouble(error: Error, message: string, videoId: string): void
}
