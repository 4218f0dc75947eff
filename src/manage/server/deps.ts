import type { IncomingMessage, ServerResponse } from 'node:http'

import type { AccountId } from '../../domain/account.ts'

import type { ChannelTestResult } from '../../domain/channel-test.ts'
import type { Operation } from '../../domain/operation.ts'

import type { ClientAddress } from '../../http/address.ts'
import type { Budget } from '../../http/budget.ts'
import type { ProxyReports } from '../../http/exposure.ts'
import type { OutboundClient } from '../../http/outbound.ts'
import type { Digest } from '../../identity/credentials.ts'
import type { Identify } from '../../identity/identify.ts'
import type { Keyring } from '../../identity/keyring.ts'
import type { Passwords } from '../../identity/passwords.ts'
import type { Throttle } from '../../identity/throttle.ts'

import type { Readiness } from '../../routing/cooldown.ts'
import type { RouteExplanation } from '../../routing/plan.ts'
import type { RoutedChannel } from '../../routing/table.ts'
import type { VideoRow } from '../../store/engine/schema.ts'
import type { Db, Engine } from '../../store/engine/store.ts'

export type { Readiness as Condition }

/** What the management API is given when it is built. */
export type Deps = {
  readonly db: Db
  readonly engine: Engine
  /** Asks the store for a sign of life, and waits a few seconds for it. */
  isStoreAnswering(): Promise<boolean>
  readonly keyring: Keyring
  readonly digest: Digest
  readonly identify: Identify
  readonly passwords: Passwords
  readonly throttle: Throttle
  readonly clientAddress: ClientAddress
  /** What makes the gateway less safe than it could be. */
  readonly exposure: {
    /** The address it listens on, where that is public and no TLS is known in front of it. */
    readonly publicHost: string | undefined
    readonly untrustedProxy: ProxyReports['first']
  }
  readonly outbound: OutboundClient
  /** The memory that all bodies of this process may take. */
  readonly memory: Budget
  /** How the store is brought up to what every worker's relay knows. */
  readonly ledger: {
    /** Before reading: at most a second, false when one of them did not say so in time. */
    catchUp(account?: AccountId): Promise<boolean>
    /** Before changing an account: all of them, however long it takes. */
    flushAndReturn(account: AccountId): Promise<void>
  }
  /** Tells the relay what was changed, by the targets of audit records; done before the change answers 200. */
  readonly announce: (targets: readonly string[]) => Promise<void>
  /** Recomputes chains, balances and whatever else can be proven. */
  readonly verify: (options: {
    readonly auditOnly?: boolean
  }) => Promise<{ ok: boolean; lines: readonly string[]; faults?: readonly string[] }>
  /** How a request would go, without sending it. */
  readonly routes: { explain(model: string, operation: Operation): RouteExplanation<RoutedChannel> }
  /** Channels as the relay uses them. */
  readonly channels: {
    test(
      id: number,
      options: {
        readonly model?: string | undefined
        readonly isStream?: boolean | undefined
        readonly keyIndex?: number | undefined
      },
    ): Promise<ChannelTestResult>
    enabledIds(): readonly number[]
    /** How those fare that are enabled, as this worker has found them; `keys` are those that are not ready. */
    conditions(): readonly {
      readonly id: number
      readonly channel: Readiness
      readonly keys: readonly (Readiness & { readonly index: number })[]
    }[]
    /** Enabled channels with override operations that are disabled, and why. */
    disabledOverrides(): readonly {
      readonly id: number
      readonly name: string
      readonly reasons: readonly string[]
    }[]
  }
  /** The folders with the console's files, the one to be served first; none while they are being made. */
  consoleBuilds(): Promise<readonly string[]>
  /** The relay, for somebody who is known already. */
  relayFor(asked: {
    readonly request: IncomingMessage
    readonly response: ServerResponse
    readonly path: string
    readonly person: { readonly userId: number; readonly tokenId: number }
  }): void
  /** Video jobs, as the relay has them. */
  readonly videos: {
    /** Looks at a running job again, unless somebody did so just now. */
    refresh(row: VideoRow): Promise<VideoRow>
    /** Has the provider forget a job that is gone here, where it can; nobody waits for it. */
    forget(row: VideoRow): void
    /** Streams a film; what cannot be had is thrown before `onStart`. */
    fetchContent(fetching: {
      readonly row: VideoRow
      readonly request: IncomingMessage
      readonly response: ServerResponse
      readonly headers: Readonly<Record<string, string>>
      onStart(): void
    }): Promise<void>
  }
  readonly basePath: string
  readonly version: string
  readonly startTime: number
  readonly allowPrivateUpstreams: boolean
  /** Unix seconds. */
  readonly now: () => number
}
