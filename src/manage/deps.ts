import type { ClientAddress } from '../http/address.ts'
import type { Outbound } from '../http/outbound.ts'
import type { Digest } from '../identity/credentials.ts'
import type { Identify } from '../identity/identify.ts'
import type { Keyring } from '../identity/keyring.ts'
import type { Passwords } from '../identity/passwords.ts'
import type { Throttle } from '../identity/throttle.ts'
import type { Db, Engine } from '../store/store.ts'

/** What the management API is given when it is built. */
export type Deps = {
  readonly db: Db
  readonly engine: Engine
  readonly keyring: Keyring
  readonly digest: Digest
  readonly identify: Identify
  readonly passwords: Passwords
  readonly throttle: Throttle
  readonly clientAddress: ClientAddress
  readonly outbound: Outbound
  readonly basePath: string
  readonly version: string
  readonly startTime: number
  readonly allowPrivateUpstreams: boolean
  /** Unix seconds. */
  readonly now: () => number
}
