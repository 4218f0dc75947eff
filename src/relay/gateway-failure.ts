import type { Refusal } from '../domain/errors.ts'
import { shortageOf } from '../domain/shortage.ts'
import { EMPTY } from '../domain/usage.ts'
import { overloaded } from '../http/budget.ts'
import { refusalOfError } from '../http/errors.ts'
import { relayErrorOf } from './answer/error-format.ts'
import type { RelayChannel } from './catalog/catalog.ts'
import type { ChannelRequest } from './operations/channel-request.ts'
import type { RelayRequest, Trace } from './request.ts'
import { settle } from './settlement.ts'

/** The error that the client gets for anything that was thrown. */
export function clientRefusal(error: unknown, requestId: string): Refusal {
  const shortage = shortageOf(error)
  return shortage ? overloaded(shortage) : refusalOfError(error, requestId)
}

type InterruptedAttempts = {
  readonly trace: Trace
  /** The channel of the last attempt, and the request that was encoded for it. */
  readonly channel: RelayChannel
  readonly outgoing?: ChannelRequest | undefined
  /** The last attempt was sent, and the trace does not have its failure. */
  readonly isUnresolved: boolean
}

/**
 * The gateway failed before it settled the request, for example because a further attempt could not be held. Providers may
 * bill the attempts that were already sent, so the user pays nothing and their estimates go to suspense
 * (docs/reference/money.md: Suspense). Does nothing if no provider may bill anything.
 */
export async function settleGatewayFailure(
  request: RelayRequest,
  { trace, channel, outgoing, isUnresolved }: InterruptedAttempts,
  error: unknown,
): Promise<void> {
  const { hold, priced, deps, requestId } = request
  if (hold.hasEnded()) return
  if (!isUnresolved && !trace.failures.some(({ mayBeBilled }) => mayBeBilled)) return
  const { message, code } = relayErrorOf(clientRefusal(error, requestId)).body.error
  try {
    const amount = isUnresolved ? priced.estimate(channel, outgoing) : 0
    const reason = 'The gateway failed after the request was sent.'
    await settle(request, {
      channel,
      outgoing,
      usage: EMPTY,
      source: 'zero',
      trace,
      error: message,
      errorCode: String(code),
      suspense: amount > 0 ? [{ channelId: channel.id, amount, reason }] : [],
    })
  } catch (failure) {
    // The client gets the first error.
    deps.onFailure(failure as Error, requestId)
  }
}
