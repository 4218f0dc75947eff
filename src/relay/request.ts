import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import type { Shortage } from '../domain/shortage.ts'
import type { ClientAddress } from '../http/address.ts'
import type { Budget, Share } from '../http/budget.ts'
import type { Hold, Ledger } from '../ledger/ledger.ts'
import type { Health } from '../routing/health.ts'
import type { SkipReason } from '../routing/plan.ts'
import type { RateLimiter } from '../routing/rates.ts'
import type { RoutedModel } from '../routing/table.ts'
import type { AdmittedCaller } from './callers/admit.ts'
import type { Callers } from './callers/callers.ts'
import type { AddressBook, Catalog, RelayChannel } from './catalog/catalog.ts'
import type { Forms } from './intake/form.ts'
import type { Claim, IdempotentRequests } from './intake/repeat.ts'
import type { OperationSpec, ReadContext, Work } from './operations/operation.ts'
import type { RequestPrice } from './price/price.ts'
import type { TokenCounter } from './price/token-count.ts'
import type { AttemptFailure } from './upstream/failure.ts'
import type { FormatMemory } from './upstream/format-fallback.ts'
import type { KeyExchange } from './upstream/key-exchange.ts'
import type { Upstream } from './upstream/upstream.ts'

/** What the relay is given when it is built. */
export type RelayDeps = {
  readonly directory: Callers
  readonly catalog: Catalog
  readonly ledger: Ledger
  readonly health: Health
  readonly rates: RateLimiter
  readonly upstream: Upstream
  readonly keys: KeyExchange
  readonly addressOf: AddressBook
  /** The formats that channels were found to lack. */
  readonly formats: FormatMemory
  readonly counter: TokenCounter
  readonly clientAddress: ClientAddress
  readonly maxBodyBytes: number
  /** The memory that all bodies of this process may take. */
  readonly memory: Budget
  /** Something that the machine has run out of: for the log. */
  onShortage(shortage: Shortage): void
  readonly forms: Forms
  readonly desk: ReadContext
  /** True while new work is refused; what runs goes on. */
  isStopping(): boolean
  isOverloaded(request: IncomingMessage): boolean
  nowMs(): number
  random(): number
  ownerOf(type: number | undefined): string
  endpointTypes(model: string): readonly string[]
  onFailure(error: Error, requestId: string): void
  /** Requests that are done once for an `Idempotency-Key`. */
  readonly repeats: IdempotentRequests
  /** Whose console session a request carries, where it was made by the user's own hand; undefined: none counts. */
  sessionUser(request: IncomingMessage): Promise<number | undefined>
  /** Balances in the form of the common billing endpoints are kept by the management API. */
  readonly manage: RequestListener
}

/** One request on its way: who asked, what for, at what price, and the hold that pays for it. */
export type RelayRequest = {
  readonly deps: RelayDeps
  readonly spec: OperationSpec
  readonly work: Work
  readonly route: RoutedModel<RelayChannel>
  readonly priced: RequestPrice
  readonly hold: Hold
  readonly response: ServerResponse
  readonly requestId: string
  readonly startedMs: number
  readonly admitted: AdmittedCaller
  /** What the request takes of the memory of all bodies. */
  readonly share: Share
  /** Keeps the answer for whoever asks the same again. */
  readonly keep?: Claim['keep']
}

/** What happened on the way to an answer: kept with the request's usage row. */
export type Trace = {
  readonly failures: AttemptFailure[]
  readonly passedOver: readonly SkipReason[]
  readonly attempts: { channel: number; status: number | string; ms: number }[]
}
