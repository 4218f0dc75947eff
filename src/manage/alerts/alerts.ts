import type { alertContract } from '../contract/alerts.ts'
import type { Handlers } from '../server/call.ts'
import type { Deps } from '../server/deps.ts'
import { createDeliveryHandlers } from './deliveries.ts'
import { createRuleHandlers } from './rules.ts'
import { createTargetHandlers } from './targets.ts'

/** Alert rules, targets and deliveries. */
export const createAlertHandlers = (deps: Deps): Handlers<typeof alertContract> => ({
  ...createRuleHandlers(deps),
  ...createTargetHandlers(deps),
  ...createDeliveryHandlers(deps),
})
