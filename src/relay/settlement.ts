import type { Refusal } from '../domain/errors.ts'
import { exactOrUndefined } from '../domain/money.ts'
import type { UnresolvedCharge, UsageLog } from '../domain/settled.ts'
import { allCounts, EMPTY, totalInput, totalOutput, type Usage, withToolCalls } from '../domain/usage.ts'
import type { UpstreamError } from './answer/upstream-error.ts'
import { excessSuspense } from './price/plausible-usage.ts'
import { shadowCosts } from './price/shadow.ts'
import type { RelayRequest, Trace } from './request.ts'
import { type SettledUsage, servedConditions, usageDetails } from './usage-details.ts'

const NO_SUSPENSE: readonly UnresolvedCharge[] = []

type SettlementInput = SettledUsage & {
  readonly error?: string | undefined
  readonly suspense?: readonly UnresolvedCharge[]
  readonly upstreamRequestId?: string
}

/** The providers of attempts that were cut off or timed out may still bill them (docs/reference/money.md: Suspense). */
function failedSuspense({ priced }: RelayRequest, { failures }: Trace): readonly UnresolvedCharge[] {
  if (failures.length === 0) return NO_SUSPENSE
  return failures
    .filter(({ mayBeBilled }) => mayBeBilled)
    .map(({ channel, message, estimate = priced.estimate(channel) }) => ({
      channelId: channel.id,
      amount: estimate,
      reason: message,
    }))
    .filter(({ amount }) => amount > 0)
}

export const errorCodeOf = (refusal: Refusal, forwarded: UpstreamError | undefined) =>
  forwarded ? `upstream_${forwarded.status}` : refusal.code

/** Adds the tool calls that are charged although no answer reports them. */
function chargedUsage(
  { priced }: RelayRequest,
  { channel, usage, source, outgoing }: SettlementInput,
): Usage {
  return source === 'zero' ? usage : withToolCalls(usage, priced.unreported(channel, outgoing?.tools))
}

/**
 * A usage that costs more than 2^53 nanodollars cannot be charged. It is recorded as reported and goes to suspense, as implausible
 * usage does.
 */
function withoutUsage(request: RelayRequest, settling: SettlementInput): SettlementInput {
  const { usage, reported = usage } = settling
  const { vendorCost } = usage
  return {
    ...settling,
    usage: vendorCost === undefined ? EMPTY : { ...EMPTY, vendorCost },
    source: 'zero',
    reported: chargedUsage(request, { ...settling, usage: reported }),
  }
}

/** Settles a request in the ledger, once. The last byte of the answer is sent after this resolves. */
export function settle(
  request: RelayRequest,
  settling: SettlementInput,
): Promise<{ paid: number; cost: number }> {
  const { hold, priced, work, deps, startedMs, admitted } = request
  const { channel, trace, error } = settling
  const usage = chargedUsage(request, settling)
  const served = servedConditions(request, settling)
  const cost = exactOrUndefined(() => priced.costOf(channel, usage, served))
  if (cost === undefined) return settle(request, withoutUsage(request, settling))
  const price = priced.billedBy(channel, usage, served)
  const counts = allCounts(usage)
  const other = usageDetails(request, settling, usage, price)
  const shadows = deps.catalog.shadows()
  if (shadows !== undefined) {
    const shadow = shadowCosts(shadows, request, { channel, usage, served })
    if (shadow.length > 0) other.shadow = shadow
  }
  const log: UsageLog = {
    tokenName: admitted.caller.tokenName,
    model: work.model,
    promptTokens: totalInput(counts),
    completionTokens: totalOutput(counts),
    useTimeMs: deps.nowMs() - startedMs,
    isStream: work.isStream,
    address: admitted.address,
    isError: error !== undefined,
    content: error ?? '',
    upstreamRequestId: settling.upstreamRequestId ?? '',
    other,
  }
  const { reported } = settling
  const excess = reported
    ? excessSuspense(channel.id, cost, () =>
        priced.costOf(channel, chargedUsage(request, { ...settling, usage: reported }), served),
      )
    : NO_SUSPENSE
  const own = settling.suspense ?? NO_SUSPENSE
  const failed = failedSuspense(request, trace)
  const suspense = excess.length + own.length > 0 ? [...failed, ...own, ...excess] : failed
  const { video } = settling
  return hold.settle({ channelId: channel.id, cost, suspense, log, video }).then(paid => {
    request.report.settled = { channelId: channel.id, paid, log }
    return { paid, cost }
  })
}
