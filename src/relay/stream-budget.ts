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
 * Keeps the hold of a running stream above its cost. The returned function is called as the stream progresses; false:
 * the quota does not cover the stream any longer.
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
      // Twice the cost saves an extension soon; the cost so far is enough to go on.
      isRefused = !((await hold.extend(costSoFar)) || (await hold.extend(costSoFar - hold.held())))
    } catch {
      // Without an answer of the ledger the stream is stopped like one whose quota is used up.
      isRefused = true
    } finally {
      isExtending = false
    }
  }

  return () => {
    const used = usageSoFar(meter.reading, tokens => priced.counted(channel, tokens, meter.measured?.()))
    const usage = withToolCalls(plausibleUsage(used, limits), meter.reading.toolCalls)
    const costSoFar = priced.costOf(channel, usage, outgoing.services)
    hold.progress(costSoFar)
    // The hold bounds the requested answer; a provider may go beyond that.
    if (costSoFar > hold.held() && !isExtending) void extend(costSoFar)
    return !isRefused
  }
}
