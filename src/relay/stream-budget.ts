import { exactOrUndefined } from '../domain/money.ts'
import { withToolCalls } from '../domain/usage.ts'
import type { RelayChannel } from './catalog/catalog.ts'
import type { ChannelRequest, StreamMeter } from './operations/channel-request.ts'
import { plausibleUsage, type UsageLimits } from './price/plausible-usage.ts'
import { usageSoFar } from './price/usage-count.ts'
import type { RelayRequest } from './request.ts'

type Budgeted = {
  readonly channel: RelayChannel
  readonly outgoing: Pick<ChannelRequest, 'services'>
  readonly meter: StreamMeter
  readonly limits: UsageLimits
}

/**
 * Keeps the hold of a running stream above its cost. The returned function is called as the stream progresses. It returns
 * false as soon as the quota no longer covers the stream.
 */
export function createStreamBudget(
  { hold, priced }: Pick<RelayRequest, 'hold' | 'priced'>,
  { channel, outgoing, meter, limits }: Budgeted,
): () => boolean {
  let isExtending = false
  let isRefused = false

  async function extend(costSoFar: number): Promise<void> {
    isExtending = true
    try {
      // Extending to twice the cost avoids another extension soon. If the quota does not allow that, the cost so far is
      // enough.
      isRefused = !((await hold.extend(costSoFar)) || (await hold.extend(costSoFar - hold.held())))
    } catch {
      // If the ledger fails, the stream is stopped as if the quota were used up.
      isRefused = true
    } finally {
      isExtending = false
    }
  }

  return () => {
    const used = usageSoFar(meter.reading, tokens => priced.counted(channel, tokens, meter.measured?.()))
    const usage = plausibleUsage(withToolCalls(used, meter.reading.toolCalls), limits)
    const costSoFar = exactOrUndefined(() => priced.costOf(channel, usage, outgoing.services))
    // Such a usage is implausible: the settlement does not charge it.
    if (costSoFar === undefined) return !isRefused
    hold.progress(costSoFar)
    // The hold covers the requested maximum output, but a provider may exceed it.
    if (costSoFar > hold.held() && !isExtending) void extend(costSoFar)
    return !isRefused
  }
}
