import { NANO_DIGITS, unitsLeft, unitsUsed } from '../../domain/money.ts'
import { NEVER } from '../../domain/token.ts'
import type { TokenWithAccount } from '../../store/records/tokens.ts'
import type { usageContract } from '../contract/usage.ts'
import { createKeyHolder } from '../people/api-key.ts'
import type { Handlers, RouteCall } from '../server/call.ts'
import type { Deps } from '../server/deps.ts'

/** The value that existing clients read as "no limit". */
const NO_LIMIT_USD = 100_000_000
const CENTS_PER_USD = 100
const NANOS_PER_USD = 10 ** NANO_DIGITS

/** A formerly unlimited token may have used more than its quota; its remainder is 0 then. */
const leftOf = ({ credited, posted }: TokenWithAccount) => Math.max(0, credited - posted)
const expiryOf = ({ expired_time }: TokenWithAccount) => (expired_time === NEVER ? 0 : expired_time)

/** Quota, usage and remainder of a token, for a caller that has the token. */
export function createUsageHandlers(deps: Deps): Handlers<typeof usageContract> {
  const keyHolder = createKeyHolder(deps, 'forbidden')
  const relayKeyHolder = createKeyHolder(deps, 'ip_not_allowed')

  type BillingCall = Pick<RouteCall, 'authorization' | 'address' | 'reply'>

  async function subscription(call: BillingCall) {
    const token = await relayKeyHolder(call)
    const limit = token.unlimited ? NO_LIMIT_USD : (token.posted + leftOf(token)) / NANOS_PER_USD
    return {
      object: 'billing_subscription' as const,
      has_payment_method: true,
      soft_limit_usd: limit,
      hard_limit_usd: limit,
      system_hard_limit_usd: limit,
      access_until: expiryOf(token),
    }
  }

  async function total(call: BillingCall) {
    const { posted } = await relayKeyHolder(call)
    return { object: 'list' as const, total_usage: posted / (NANOS_PER_USD / CENTS_PER_USD) }
  }

  return {
    tokenUsage: async call => {
      const token = await keyHolder(call, { evenIfExpired: true })
      const used = unitsUsed(token.posted)
      const available = unitsLeft(leftOf(token))
      return {
        code: true as const,
        message: 'ok',
        data: {
          object: 'token_usage' as const,
          name: token.name,
          total_granted: used + available,
          total_used: used,
          total_available: available,
          unlimited_quota: token.unlimited === 1,
          model_limits: Object.fromEntries(
            (JSON.parse(token.models) as string[]).map(model => [model, true as const]),
          ),
          model_limits_enabled: token.model_limits_enabled === 1,
          expires_at: expiryOf(token),
        },
      }
    },
    billingSubscription: subscription,
    billingUsage: total,
    billingSubscriptionShort: subscription,
    billingUsageShort: total,
  }
}
