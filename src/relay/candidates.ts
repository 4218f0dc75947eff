import { Refusal } from '../domain/errors.ts'
import type { Attempt, AttemptOutcome } from '../routing/health.ts'
import { type PlanOptions, type PlanStep, planCursor, retryAfterS } from '../routing/plan.ts'
import type { Admission, Release, Ticket } from '../routing/rates.ts'
import type { RoutedModel } from '../routing/table.ts'
import type { RelayChannel } from './catalog/catalog.ts'
import type { RelayDeps, RequestSpan, Trace, TracedAttempt } from './request.ts'
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
export type AttemptSlot = {
  readonly health: Attempt
  readonly ticket: Ticket
  /** Ends an attempt that used no tokens; only the first call has an effect. */
  end(outcome: AttemptOutcome): Release
}

const DEFAULT_RETRY_AFTER_S = 5

/** The channels that a request may try, in the order of its plan, and the trace of the attempts. */
export function openCandidates(
  deps: PlanDeps & Pick<RelayDeps, 'health' | 'nowMs'>,
  {
    countedInput,
    span,
    ...request
  }: RoutingRequest & { readonly countedInput: number; readonly span: RequestSpan | undefined },
) {
  const { steps, passedOver, passOverFull, passOver } = planCursor(planOptions(deps, request))
  const trace: Trace = { failures: [], passedOver, attempts: [] }

  /** Undefined if other requests have used up the channel's limits since the plan chose it. */
  function takeSlot(
    step: PlanStep<RelayChannel>,
  ): AttemptSlot | undefined | Promise<AttemptSlot | undefined> {
    const { id, limits } = step.channel
    // Synchronous, before the first await: after a cooldown only one trial request is sent, and other plans must see this one.
    const health = deps.health.begin(step)
    const enter = (admission: Admission): AttemptSlot | undefined => {
      if (!admission.ok) {
        health.end({ kind: 'client' })
        passOverFull(step.channel, admission.retryAfterS)
        return undefined
      }
      const { ticket } = admission
      let release: Release
      return {
        health,
        ticket,
        end(outcome) {
          health.end(outcome)
          release ??= ticket.end(0)
          return release
        },
      }
    }
    const admission = deps.rates.admit([{ kind: 'channel', id, limits }], countedInput)
    return admission instanceof Promise ? admission.then(enter) : enter(admission)
  }

  function note(attempt: Omit<TracedAttempt, 'ms'>, sentMs: number): void {
    trace.attempts.push({ ...attempt, ms: deps.nowMs() - sentMs })
  }

  return {
    steps,
    trace,
    takeSlot,
    /** Skips the channel of the last step for this reason, although the plan chose it. */
    passOver,
    /** Records an attempt, sent at `sentMs`; one that was never sent took no time. */
    note(step: PlanStep<RelayChannel>, status: number | string, sentMs = deps.nowMs()): void {
      note({ channel: step.channel.id, status }, sentMs)
      span?.endAttempt({ step, status, sentMs, endedMs: deps.nowMs() })
    },
    /** The same for an attempt that failed, with the provider's report. Returns the outcome for the channel's health. */
    noteFailure(
      step: PlanStep<RelayChannel>,
      failure: AttemptFailure,
      sentMs = deps.nowMs(),
    ): AttemptOutcome {
      const provider = providerReport(failure)
      const status = failure.status || failure.message
      const attempt = { channel: step.channel.id, status, ...(provider && { provider }) }
      const isMapped = step.sentModel !== request.route.requestedModel
      note(isMapped ? { ...attempt, sent_model: step.sentModel } : attempt, sentMs)
      span?.endAttempt({ ...attempt, step, failure: failure.kind, sentMs, endedMs: deps.nowMs() })
      return healthOutcome(failure, provider)
    },
    /** The refusal if no channel can take the request, with a Retry-After for the first channel that is ready again. */
    noChannel: () =>
      new Refusal(
        'no_channel_available',
        `No channel for the model "${request.route.requestedModel}" is available now. Try again later.`,
        {
          retryAfterS: retryAfterS(passedOver) ?? DEFAULT_RETRY_AFTER_S,
        },
      ),
  }
}

export type Candidates = ReturnType<typeof openCandidates>
