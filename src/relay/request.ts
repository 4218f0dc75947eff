import type { RequestListener } from 'node:http'
import type { CanaryMark } from '../domain/canary.ts'
import type { UsageLog } from '../domain/settled.ts'
import type { Shortage } from '../domain/shortage.ts'
import type { ClientAddress } from '../http/address.ts'
import type { Budget, Share } from '../http/budget.ts'
import type { RelayIncoming, RelayOutgoing } from '../http/relay-exchange.ts'
import type { Hold, Ledger } from '../ledger/ledger.ts'
import type { Health } from '../routing/health.ts'
import type { PlanStep, SkipReason } from '../routing/plan.ts'
import type { RateLimiter } from '../routing/rates.ts'
import type { RoutedModel } from '../routing/table.ts'
import type { BodyCapture } from './bodies/capture.ts'
import type { IdentifiedCaller } from './callers/admit.ts'
import type { Caller, Callers } from './callers/callers.ts'
import type { AddressBook, Catalog, RelayChannel } from './catalog/catalog.ts'
import type { Forms } from './intake/form.ts'
import type { Claim, IdempotentRequests } from './intake/repeat.ts'
import type { OperationSpec, ReadContext, Work } from './operations/operation.ts'
import type { RequestPrice } from './price/price.ts'
import type { TokenCounter } from './price/token-count.ts'
import type { Rejections } from './rejections.ts'
import type { AttemptFailure } from './upstream/failure.ts'
import type { FormatMemory } from './upstream/format-fallback.ts'
import type { KeyExchange } from './upstream/key-exchange.ts'
import type { ProviderReport } from './upstream/provider-report.ts'
import type { Upstream } from './upstream/upstream.ts'

/** What is known of a request when it ends. */
export type RequestReport = {
  readonly requestId: string
  readonly operation: string
  readonly startedMs: number
  /** Of `performance.now()`, as are the times of `upstream`. */
  readonly startedAt: number
  /** Providers took `ms` until their answers or first events; the gateway took `gatewayMs` until the last attempt was sent. */
  readonly upstream: { gatewayMs: number | undefined; ms: number; isStreamed: boolean }
  caller?: Pick<Caller, 'userId' | 'tokenId'> | undefined
  work?: Pick<Work, 'model' | 'isStream' | 'tags'> | undefined
  /** The request is in the ledger, so settling it writes its log row. */
  hasLedgerRow?: boolean | undefined
  /** The canaries that the request takes part in. */
  canaries?: readonly CanaryMark[] | undefined
  /** Channels that were not tried, if no channel could take the request. */
  passedOver?: readonly SkipReason[] | undefined
  settled?: { readonly channelId: number; readonly paid: number; readonly log: UsageLog } | undefined
  /** The code of the gateway's own error. */
  code?: string | undefined
  /** Collects the bodies, if the caller wants them kept. */
  capture?: BodyCapture | undefined
  /** Undefined if tracing is off. */
  readonly span: RequestSpan | undefined
}

/** The span of a request in its trace (docs/reference/tracing.md: Spans). Attempts follow one another. */
export type RequestSpan = {
  /** The headers of the next attempt: its provider may continue the trace. */
  attemptHeaders(): Readonly<Record<string, string>>
  /** The attempt that the last headers were for has ended, or a stream has begun. */
  endAttempt(attempt: EndedAttempt): void
}

/** An attempt as the span of its request gets it. */
export type EndedAttempt = Pick<TracedAttempt, 'status' | 'provider'> & {
  readonly step: Pick<PlanStep<RelayChannel>, 'channel' | 'sentModel'>
  /** Why there is no valid response. */
  readonly failure?: AttemptFailure['kind']
  readonly sentMs: number
  readonly endedMs: number
}

/** The dependencies of the relay. */
export type RelayDeps = {
  readonly directory: Callers
  readonly catalog: Catalog
  readonly ledger: Ledger
  readonly health: Health
  readonly rates: RateLimiter
  readonly upstream: Upstream
  readonly keys: KeyExchange
  readonly addressOf: AddressBook
  /** The formats that each channel turned out to lack. */
  readonly formats: FormatMemory
  readonly counter: TokenCounter
  readonly clientAddress: ClientAddress
  readonly maxBodyBytes: number
  /** The memory budget of all bodies in this process. */
  readonly memory: Budget
  /** Logs a resource that this machine has run out of. */
  onShortage(shortage: Shortage): void
  readonly forms: Forms
  readonly readContext: ReadContext
  /** True during shutdown: new requests are refused, running ones continue. */
  isStopping(): boolean
  /** Whether this node refuses requests because it may have missed changes of other nodes. */
  isFenced(): boolean
  isOverloaded(request: RelayIncoming): boolean
  nowMs(): number
  random(): number
  ownerOf(type: number | undefined): string
  endpointTypes(model: string): readonly string[]
  onFailure(error: Error, requestId: string): void
  readonly rejections: Pick<Rejections, 'add' | 'addUnknown'>
  onRequestStart(): void
  /** Absent if tracing is off. */
  startSpan?(request: RelayIncoming): RequestSpan
  /** Called once for each started request, after its response. */
  onRequestEnd(report: RequestReport, request: RelayIncoming, response: RelayOutgoing): void
  /** Runs a request once per `Idempotency-Key`. */
  readonly idempotentRequests: IdempotentRequests
  /** The user of the console session, if the request comes from a signed-in browser. */
  sessionUser(request: RelayIncoming): Promise<number | undefined>
  /** The management API, which serves the billing endpoints. */
  readonly manage: RequestListener
}

/** An admitted request: its caller, its content, its price, and the hold that covers it. */
export type RelayRequest = {
  readonly deps: RelayDeps
  readonly spec: OperationSpec
  readonly work: Work
  readonly route: RoutedModel<RelayChannel>
  readonly priced: RequestPrice
  readonly hold: Hold
  readonly response: RelayOutgoing
  readonly requestId: string
  readonly startedMs: number
  readonly report: RequestReport
  readonly admitted: IdentifiedCaller
  /** The memory that the request takes from the budget of all bodies. */
  readonly share: Share
  /** Stores the answer for a retry with the same `Idempotency-Key`. */
  readonly storeAnswer?: Claim['storeAnswer'] | undefined
}

/** The attempts and failures before the answer, stored in the usage row of the request. */
export type Trace = {
  readonly failures: AttemptFailure[]
  readonly passedOver: readonly SkipReason[]
  readonly attempts: TracedAttempt[]
}

/** An attempt as it is stored with the request. */
export type TracedAttempt = {
  readonly channel: number
  /** The status, or the reason why there is none. */
  readonly status: number | string
  readonly ms: number
  /** The model name that was sent, if the attempt failed and the name is not the requested one. */
  readonly sent_model?: string
  /** What the provider reported, if it failed with a response. */
  readonly provider?: ProviderReport
}
