import { alertContract } from './alerts.ts'
import { aliasContract } from './aliases.ts'
import { auditContract } from './audit.ts'
import { bodyContract } from './bodies.ts'
import { canaryContract } from './canaries.ts'
import { channelContract } from './channels.ts'
import { configContract } from './config-revisions.ts'
import { explainContract } from './explain.ts'
import { insightContract } from './insight.ts'
import { ledgerContract } from './ledger.ts'
import { logContract } from './logs.ts'
import { metricsContract } from './metrics.ts'
import { nodeContract } from './nodes.ts'
import { playgroundContract } from './playground.ts'
import { priceContract } from './prices.ts'
import { pricingContract } from './pricing.ts'
import { replayContract } from './replay.ts'
import type { Contract } from './route.ts'
import { routingContract } from './routing.ts'
import { settingContract } from './settings.ts'
import { statusContract } from './status.ts'
import { taskContract } from './tasks.ts'
import { tokenContract } from './tokens.ts'
import { usageContract } from './usage.ts'
import { selfContract, signInContract, userContract } from './users.ts'
import { videoContract } from './videos.ts'

/** All routes: the OpenAPI document, the tests and the 405 responses are generated from this. */
export const contract = {
  ...statusContract,
  ...signInContract,
  ...selfContract,
  ...userContract,
  ...tokenContract,
  ...channelContract,
  ...aliasContract,
  ...canaryContract,
  ...settingContract,
  ...auditContract,
  ...ledgerContract,
  ...routingContract,
  ...priceContract,
  ...pricingContract,
  ...logContract,
  ...explainContract,
  ...bodyContract,
  ...replayContract,
  ...usageContract,
  ...insightContract,
  ...videoContract,
  ...taskContract,
  ...playgroundContract,
  ...metricsContract,
  ...alertContract,
  ...nodeContract,
  ...configContract,
} as const satisfies Contract
