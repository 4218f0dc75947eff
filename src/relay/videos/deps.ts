import type { AccountId } from '../../domain/account.ts'
import type { Keyring } from '../../identity/keyring.ts'
import type { Db, Engine } from '../../store/engine/store.ts'
import type { RelayDeps, RequestReport } from '../request.ts'
import type { Vendor } from './vendor.ts'

/** The dependencies of video jobs, in addition to those of every request. */
export type VideoDeps = RelayDeps & {
  readonly db: Db
  readonly engine: Engine
  readonly keyring: Keyring
  readonly nodeId: string
  readonly vendor: Vendor
  /** Returns the leases of an account to the store before a charge there. */
  flushAndReturn(account: AccountId): Promise<void>
  /** How long the gateway searches for an unanswered submission. */
  readonly searchMs: number
  /** A job that has not ended after this time has failed. */
  readonly deadlineMs: number
  /** The path prefix behind a proxy. */
  readonly basePath: string
  onProblem(error: Error, message: string, videoId: string): void
  /** Called when a request is settled after its response. */
  onLateSettlement(report: Pick<RequestReport, 'settled' | 'work'>): void
  /** Called when a user pays an unresolved charge, in nanodollars. */
  onLateCharge(nanos: number): void
}
