import type { FastifyInstance } from 'fastify'
import { Refusal } from '../domain/errors.ts'
import { createAliasHandlers } from './aliases.ts'
import { createAuditHandlers } from './audit.ts'
import { createChannelHandlers } from './channels.ts'
import { contract } from './contract/index.ts'
import type { Deps } from './deps.ts'
import { createInsightHandlers } from './insight.ts'
import { createLedgerHandlers } from './ledger.ts'
import { createLogHandlers } from './logs.ts'
import { createPlaygroundHandlers } from './playground.ts'
import { createPriceHandlers } from './prices.ts'
import { createPricingHandlers } from './pricing.ts'
import { createSelfHandlers } from './self.ts'
import { serveContract } from './serve.ts'
import { createSettingHandlers } from './settings.ts'
import { createSignInHandlers } from './sign-in.ts'
import { createStatusHandlers } from './status.ts'
import { createTokenHandlers } from './tokens.ts'
import { createUsageHandlers } from './usage.ts'
import { createUserHandlers } from './users.ts'
import { createVideoHandlers } from './videos.ts'

export function serveEverything(app: FastifyInstance, deps: Deps): void {
  serveContract(
    app,
    contract,
    {
      ...createStatusHandlers(deps),
      ...createSignInHandlers(deps),
      ...createSelfHandlers(deps),
      ...createUserHandlers(deps),
      ...createTokenHandlers(deps),
      ...createChannelHandlers(deps),
      ...createAliasHandlers(deps),
      ...createSettingHandlers(deps),
      ...createAuditHandlers(deps),
      ...createLedgerHandlers(deps),
      ...createPriceHandlers(deps),
      ...createPricingHandlers(deps),
      ...createLogHandlers(deps),
      ...createUsageHandlers(deps),
      ...createInsightHandlers(deps),
      ...createVideoHandlers(deps),
      ...createPlaygroundHandlers(deps),
    },
    deps,
  )
  app.get('/api/openapi.json', { schema: { hide: true } }, async () => app.swagger())
  refuseOtherMethods(app)
}

const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'] as const

/** A known path asked in another way is 405, not 404. */
function refuseOtherMethods(app: FastifyInstance): void {
  const served = new Map<string, Set<string>>([['/api/openapi.json', new Set(['GET'])]])
  for (const { path, method } of Object.values(contract)) {
    const methods = served.get(path) ?? new Set()
    served.set(path, methods.add(method))
  }
  for (const [path, methods] of served) {
    const allow = [...methods].sort().join(', ')
    app.route({
      method: METHODS.filter(method => !methods.has(method)),
      url: path,
      schema: { hide: true },
      handler: async (request, reply) => {
        reply.header('allow', allow)
        throw new Refusal('method_not_allowed', `${path} takes ${allow}, not ${request.method}`)
      },
    })
  }
}
