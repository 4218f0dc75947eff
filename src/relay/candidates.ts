import { Refusal } from '../domain/errors.ts'
import type { Attempt, AttemptOutcome } from '../routing/health.ts'
import { PlanCursor, type PlanOptions, type PlanStep, retryAfterS } from '../routing/plan.ts'
import { type Admission, isLimited, type Release, type Ticket, unlimited } from '../routing/rates.ts'
import type { RoutedModel } from '../routing/table.ts'
import type { RelayChannel } from './catalog/catalog.ts'
import type { RelayDeps, RequestSpan, Trace } from './request.ts'
import type { AttemptFailure } from './upstream/failure.ts'
import { healthOutcome, providerReport } from './upstream/provider-report.ts'

export type PlanDeps = Pick<RelayDeps, 'catalog' | 'rates' | 'random'> & {
  readonly health: PlanOptions<RelayChannel>['health']
}

type RoutingRequest = {
  readonly route: RoutedModel<RelayChannel>
  /** Why a channel is skipped for this request; undefined: it is eligible. */
  readonly skipReason: (channel: RelayChannel) => string | undefined
}

/** The options of the routing plan, the same for requests that are sent and for explanations of a route. */
export const planOptions = (
  { catalog, health, rates, random }: PlanDeps,
  { route, skipReason }: RoutingRequest,
): PlanOptions<RelayChannel> => ({
  route,
  health,
  fullForS: ({ id, limits }) => rates.fullForS({ kind: 'channel', id, limits }),
  skipReason,
  random,
  attempts: catalog.settings().attempts,
})

/** A slot within the limits of a channel, taken for one attempt. */
export class AttemptSlot {
  readonly health: Attempt
  readonly ticket: Ticket
  #release: Release

  constructor(health: Attempt, ticket: Ticket) {
    this.health = health
    this.ticket = ticket
  }

  /** Ends an attempt that used no tokens; only the first call has an effect. */
  end(outcome: AttemptOutcome): Release {
    this.health.end(outcome)
    this.#release ??= this.ticket.end(0)
    return this.#release
  }
}

const DEFAULT_RETRY_AFTER_S = 5

type CandidateDeps = PlanDeps & Pick<RelayDeps, 'health' | 'nowMs'>

type CandidateRequest = RoutingRequest & {
  readonly countedInput: number
  readonly span: RequestSpan | undefined
}

/** The channels that a request may try, in the order of its plan, and the trace of the attempts. */
export class Candidates {
  readonly trace: Trace
  readonly #deps: CandidateDeps
  readonly #request: CandidateRequest
  readonly #cursor: PlanCursor<RelayChannel>

  constructor(deps: CandidateDeps, request: CandidateRequest) {
    this.#deps = deps
    this.#request = request
    this.#cursor = new PlanCursor(planOptions(deps, request))
    this.trace = { failures: [], passedOver: this.#cursor.passedOver, attempts: [] }
  }

  /** The next channel to try; undefined: none is left. */
  next(): PlanStep<RelayChannel> | undefined {
    return this.#cursor.next()
  }

  /** Undefined if other requests have used up the channel's limits since the plan chose it. */
  takeSlot(step: PlanStep<RelayChannel>): AttemptSlot | undefined | Promise<AttemptSlot | undefined> {
    const { id, limits } = step.channel
    const { health: healthOfAll, rates } = this.#deps
    // Synchronous, before the first await: after a cooldown only one trial request is sent, and other plans must see this one.
    const health = healthOfAll.begin(step)
    if (!isLimited(limits)) return new AttemptSlot(health, unlimited.ticket)
    const admission = rates.admit([{ kind: 'channel', id, limits }], this.#request.countedInput)
    return admission instanceof Promise
      ? admission.then(each => this.#enter(step, health, each))
      : this.#enter(step, health, admission)
  }

  #enter(step: PlanStep<RelayChannel>, health: Attempt, admission: Admission): AttemptSlot | undefined {
    if (admission.ok) return new AttemptSlot(health, admission.ticket)
    health.end({ kind: 'client' })
    this.#cursor.passOverFull(step.channel, admission.retryAfterS)
    return undefined
  }

  /** Skips the channel of the last step for this reason, although the plan chose it. */
  passOver(channel: RelayChannel, reason: string): void {
    this.#cursor.passOver(channel, reason)
  }

  /** Records an attempt, sent at `sentMs`; one that was never sent took no time. */
  note(step: PlanStep<RelayChannel>, status: number | string, sentMs = this.#deps.nowMs()): void {
    const endedMs = this.#deps.nowMs()
    this.trace.attempts.push({ channel: step.channel.id, status, ms: endedMs - sentMs })
    this.#request.span?.endAttempt({ step, status, sentMs, endedMs })
  }

  /** The same for an attempt that failed, with the provider's report. Returns the outcome for the channel's health. */
  noteFailure(
    step: PlanStep<RelayChannel>,
    failure: AttemptFailure,
    sentMs = this.#deps.nowMs(),
  ): AttemptOutcome {
    const { route, span } = this.#request
    const endedMs = this.#deps.nowMs()
    const provider = providerReport(failure)
    const status = failure.status || failure.message
    const attempt = {
      channel: step.channel.id,
      status,
      ...(provider && { provider }),
      ms: endedMs - sentMs,
    }
    const isMapped = step.sentModel !== route.requestedModel
    this.trace.attempts.push(isMapped ? { ...attempt, sent_model: step.sentModel } : attempt)
    span?.endAttempt({ ...attempt, step, failure: failure.kind, sentMs, endedMs })
    return healthOutcome(failure, provider)
  }

  /** The refusal if no channel can take the request, with a Retry-After for the first channel that is ready again. */
  noChannel(): Refusal {
    return new Refusal(
      'no_channel_available',
      `No channel for the model "${this.#request.route.requestedModel}" is available now. Try again later.`,
      { retryAfterS: retryAfterS(this.trace.passedOver) ?? DEFAULT_RETRY_AFTER_S },
    )
  }
}
