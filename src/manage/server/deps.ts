import type { IncomingMessage, ServerResponse } from 'node:http'
import type { AccountId } from '../../domain/account.ts'
import type { ChannelCondition } from '../../domain/channel-condition.ts'
import type { ChannelTestResult } from '../../domain/channel-test.ts'
import type { Confirmation } from '../../domain/node.ts'
import type { Operation } from '../../domain/operation.ts'
import type { ClientAddress } from '../../http/address.ts'
import type { Budget } from '../../http/budget.ts'
import type { ProxyReports } from '../../http/exposure.ts'
import type { NetworkReport } from '../../http/network.ts'
import type { OutboundClient } from '../../http/outbound.ts'
import type { AddressPolicy } from '../../http/upstream-address.ts'
import type { BodySeal } from '../../identity/body-seal.ts'
import type { Digest } from '../../identity/credentials.ts'
import type { Identify } from '../../identity/identify.ts'
import type { Keyring } from '../../identity/keyring.ts'
import type { Passwords } from '../../identity/passwords.ts'
import type { Throttle } from '../../identity/throttle.ts'
import type { RouteExplanation } from '../../routing/plan.ts'
import type { RoutedChannel } from '../../routing/table.ts'
import type { AlertTargetRow, VideoRow } from '../../store/engine/schema.ts'
import type { Db, Engine } from '../../store/engine/store.ts'

/** The dependencies of the management API. */
export type Deps = {
  readonly db: Db
  readonly engine: Engine
  /** A standby of the store, for reports; undefined if there is none. */
  readonly replica?:
    | {
        readonly db: Db
        /** How many seconds it is behind. */
        lagS(): Promise<number>
        onFailure(error: Error): void
      }
    | undefined
  /** Whether the store answers within a few seconds. */
  isStoreAnswering(): Promise<boolean>
  readonly keyring: Keyring
  readonly digest: Digest
  readonly bodySeal: BodySeal
  readonly identify: Identify
  readonly passwords: Passwords
  readonly throttle: Throttle
  readonly clientAddress: ClientAddress
  /** Conditions that make the gateway less secure. */
  readonly exposure: {
    /** The listen address, if it is public and no TLS proxy is configured. */
    readonly publicHost: string | undefined
    readonly untrustedProxy: ProxyReports['first']
  }
  readonly outbound: OutboundClient
  /** Sends a test message to an alert target, once. */
  testAlertTarget(
    target: AlertTargetRow,
  ): Promise<{ readonly isSent: boolean; readonly status: number | undefined; readonly error?: string }>
  readonly metrics: {
    readonly contentType: string
    /** The metrics of all workers. */
    expose(): Promise<string>
    /** Counts a request of this API. The code is empty for a success. */
    onManagementRequest(status: number, code: string): void
    /** Counts an unresolved charge that a user pays after all. */
    onLateCharge(nanos: number): void
  }
  /** Whether the request's connection was opened above the connection limit. */
  exceedsConnectionLimit(request: IncomingMessage): boolean
  /** The memory that all bodies of this process may take. */
  readonly memory: Budget
  /** Applies the settled requests of all workers to the store. */
  readonly ledger: {
    /** Call it before a read. Waits at most a second; false if a worker did not respond in time. */
    catchUp(account?: AccountId): Promise<boolean>
    /** Call it before a change of an account. Waits for all workers without a timeout. */
    flushAndReturn(account: AccountId): Promise<void>
  }
  /**
   * Invalidates the relay's caches of these audit targets. A change responds with 200 only after that. Waits at most
   * `withinMs` for other machines, and with 0 not at all.
   */
  readonly announce: (targets: readonly string[], withinMs?: number) => Promise<Confirmation>
  /** Recomputes chains and balances, and compares rows, journals and anchors. */
  readonly verify: (options: {
    readonly auditOnly?: boolean
  }) => Promise<{ ok: boolean; lines: readonly string[]; faults?: readonly string[] }>
  /** Explains the route of a request without sending it, by the conditions of all workers. */
  readonly routes: {
    /** How the gateway connects to the provider of a channel; undefined if the channel has no address. */
    networkOf(channelId: number): NetworkReport | undefined
    explain(
      request: {
        readonly model: string
        readonly operation: Operation
        readonly tokenId?: number | undefined
        readonly canaryId?: number | undefined
      },
      conditions: readonly ChannelCondition[],
    ): RouteExplanation<RoutedChannel>
  }
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
    /** The enabled channels that are not ready, or have keys that are not, in any worker. */
    conditions(): Promise<readonly ChannelCondition[]>
    /** Enabled channels with override operations that are disabled, and why. */
    disabledOverrides(): readonly {
      readonly id: number
      readonly name: string
      readonly reasons: readonly string[]
    }[]
  }
  /** The folders with the console's files, the preferred one first; none while they are being built. */
  consoleBuilds(): Promise<readonly string[]>
  /** Hands a request of an authenticated user to the relay. */
  relayFor(request: {
    readonly request: IncomingMessage
    readonly response: ServerResponse
    readonly path: string
    readonly person: {
      readonly userId: number
      readonly tokenId: number
      /** The only channel that may serve the request. */
      readonly channelId?: number | undefined
    }
  }): void
  /** Video jobs, as the relay has them. */
  readonly videos: {
    /** Polls a running job again, unless it was polled just now. */
    refresh(row: VideoRow): Promise<VideoRow>
    /** Requests the deletion of a job at its provider, if the provider supports it. Does not wait. */
    forget(row: VideoRow): void
    /** Streams a video. Errors are thrown before `onStart`. */
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
  /** The command that sets a new password of root on this machine. */
  readonly resetCommand: string
  readonly startTime: number
  readonly addressPolicy: AddressPolicy
  /** Unix seconds. */
  readonly now: () => number
}
