import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
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

const DOCUMENT_PATH = '/api/openapi.json'

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
  app.get(DOCUMENT_PATH, { schema: { hide: true } }, async () => app.swagger())
  keepNamesApart(app)
}

type KnownPath = { readonly path: string; readonly pattern: RegExp; readonly methods: ReadonlySet<string> }

const paramsIn = (path: string) => path.split('/:').length

/** What each path takes, those with fewer parameters first: a name of ours stands before somebody's id. */
function knownPaths(): KnownPath[] {
  const served = new Map<string, Set<string>>([[DOCUMENT_PATH, new Set(['GET'])]])
  for (const { path, method } of Object.values(contract))
    served.set(path, (served.get(path) ?? new Set()).add(method))
  return [...served]
    .sort(([a], [b]) => paramsIn(a) - paramsIn(b))
    .map(([path, methods]) => ({
      path,
      pattern: new RegExp(`^${path.replace(/\/$/, '').replaceAll(/:[^/]+/g, '[^/]+')}/?$`),
      methods,
    }))
}

const KNOWN = knownPaths()

function refuseMethod({ path, methods }: KnownPath, { method }: FastifyRequest, reply: FastifyReply): never {
  const allow = [...methods].sort().join(', ')
  reply.header('allow', allow)
  throw new Refusal('method_not_allowed', `${path} takes ${allow}, not ${method}`)
}

/** A known path asked in another way is 405, not 404. */
export function refuseOtherMethod(request: FastifyRequest, reply: FastifyReply): void {
  const asked = (request.url.split('?')[0] ?? '').replaceAll(/\/{2,}/g, '/')
  const known = KNOWN.find(({ pattern }) => pattern.test(asked))
  if (known) refuseMethod(known, request, reply)
}

/** Where a path with a parameter takes what a name of ours does not, the name would be taken for somebody's id. */
function keepNamesApart(app: FastifyInstance): void {
  for (const known of KNOWN) {
    const { path, methods } = known
    const wider = KNOWN.filter(other => other.path !== path && other.pattern.test(path))
    const others = new Set(wider.flatMap(other => [...other.methods])).difference(methods)
    if (others.size === 0) continue
    app.route({
      method: [...others],
      url: path,
      schema: { hide: true },
      handler: async (request, reply) => refuseMethod(known, request, reply),
    })
  }
}
