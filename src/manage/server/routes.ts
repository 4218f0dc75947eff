import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { Refusal, wrongMethod } from '../../domain/errors.ts'
import { createAlertHandlers } from '../alerts/alerts.ts'
import { createCanaryHandlers } from '../canary/handlers.ts'
import { createAliasHandlers } from '../channels/aliases.ts'
import { createChannelHandlers } from '../channels/channels.ts'
import { createRoutingHandlers } from '../channels/route-explanation.ts'
import { createConfigHandlers } from '../config/revisions.ts'
import { contract } from '../contract/index.ts'
import type { Route } from '../contract/route.ts'
import { createLedgerHandlers } from '../money/ledger.ts'
import { createPriceHandlers } from '../money/prices.ts'
import { createPricingHandlers } from '../money/pricing.ts'
import { createNodeHandlers } from '../nodes/nodes.ts'
import { createSelfHandlers } from '../people/self.ts'
import { createSignInHandlers } from '../people/sign-in.ts'
import { createTokenHandlers } from '../people/tokens.ts'
import { createUserHandlers } from '../people/users.ts'
import { createBodyHandlers } from '../usage/bodies.ts'
import { createExplainHandlers } from '../usage/explain.ts'
import { createInsightHandlers } from '../usage/insight.ts'
import { createLogHandlers } from '../usage/logs.ts'
import { createPlaygroundHandlers } from '../usage/playground.ts'
import { createReplayHandlers } from '../usage/replay.ts'
import { createTestHandlers } from '../usage/saved-tests.ts'
import { createUsageHandlers } from '../usage/usage.ts'
import { createTaskHandlers } from '../videos/tasks.ts'
import { createVideoHandlers } from '../videos/videos.ts'
import { createAuditHandlers } from './audit.ts'
import type { Deps } from './deps.ts'
import { createMetricsHandlers } from './metrics.ts'
import { withReplica } from './reports.ts'
import { serveContract } from './serve.ts'
import { createSettingHandlers } from './settings.ts'
import { createStatusHandlers } from './status.ts'

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
      ...createCanaryHandlers(deps),
      ...createSettingHandlers(deps),
      ...createAuditHandlers(deps),
      ...createLedgerHandlers(deps),
      ...createRoutingHandlers(deps),
      ...createPriceHandlers(deps),
      ...createPricingHandlers(deps),
      ...withReplica(deps, createLogHandlers),
      ...createExplainHandlers(deps),
      ...createBodyHandlers(deps),
      ...createReplayHandlers(deps),
      ...createTestHandlers(deps),
      ...createMetricsHandlers(deps),
      ...createUsageHandlers(deps),
      ...withReplica(deps, createInsightHandlers),
      ...createVideoHandlers(deps),
      ...createTaskHandlers(deps),
      ...createPlaygroundHandlers(deps),
      ...createAlertHandlers(deps),
      ...createNodeHandlers(deps),
      ...createConfigHandlers(deps),
    },
    deps,
  )
  app.get(DOCUMENT_PATH, { schema: { hide: true } }, async () => app.swagger())
  reserveFixedPaths(app)
  rejectMissingRoutes(app)
  servePreflights(app)
}

type KnownPath = {
  readonly path: string
  /** With any word in place of a parameter. */
  readonly pattern: RegExp
  readonly methods: ReadonlySet<string>
}

const paramsIn = (path: string) => path.split('/:').length

/** The methods of each path, with fewer parameters first: a fixed name takes precedence over an id. */
function knownPaths(): KnownPath[] {
  const served = new Map<string, Set<string>>([[DOCUMENT_PATH, new Set(['GET'])]])
  const routes: readonly Route[] = Object.values(contract)
  for (const { path, method } of routes) served.set(path, (served.get(path) ?? new Set()).add(method))
  return [...served]
    .sort(([a], [b]) => paramsIn(a) - paramsIn(b))
    .map(([path, methods]) => ({ path, pattern: patternOf(path, '[^/]+'), methods }))
}

const patternOf = (path: string, param: string) =>
  new RegExp(
    `^${path
      .replace(/\/$/, '')
      .replaceAll(/:[^/]+/g, param)
      .replace('*', '.+')}/?$`,
  )

/** Whether the parameters are numbers: a word in their place is an unknown path. */
function takesNumbers({ path, params }: Route): boolean {
  const names = path.split('/').flatMap(part => (part.startsWith(':') ? part.slice(1) : []))
  const isTaken = (value: string) =>
    params?.safeParse(Object.fromEntries(names.map(name => [name, value]))).success
  return isTaken('1') === true && isTaken('word') === false
}

const KNOWN = knownPaths()

/** The paths whose parameters are numbers. Each schema must be compiled to know, which takes 10 ms in total. */
let numberedPaths: ReadonlySet<string> | undefined

function hasNumbers(path: string): boolean {
  const routes: readonly Route[] = Object.values(contract)
  numberedPaths ??= new Set(routes.filter(takesNumbers).map(route => route.path))
  return numberedPaths.has(path)
}

const isAt = ({ path, pattern }: KnownPath, requestedPath: string) =>
  pattern.test(requestedPath) && (!hasNumbers(path) || patternOf(path, '\\d+').test(requestedPath))

/** A known path with another method is 405, not 404. */
export function refuseOtherMethod(request: FastifyRequest): void {
  const requestedPath = (request.url.split('?')[0] ?? '').replaceAll(/\/{2,}/g, '/')
  const match = KNOWN.find(each => isAt(each, requestedPath))
  if (match) throw wrongMethod(match.path, match.methods, request.method)
}

/** Fixed paths that a path with a parameter matches too, and its other methods: these would read the fixed name as an id. */
const RESERVED = KNOWN.flatMap(({ path, methods }) => {
  const wider = KNOWN.filter(other => other.path !== path && other.pattern.test(path))
  const others = new Set(wider.flatMap(other => [...other.methods])).difference(methods)
  return others.size === 0 ? [] : [{ path, methods, others: [...others] }]
})

function reserveFixedPaths(app: FastifyInstance): void {
  for (const { path, methods, others } of RESERVED)
    app.route({
      method: others,
      url: path,
      schema: { hide: true },
      handler: async request => {
        throw wrongMethod(path, methods, request.method)
      },
    })
}

export const noSuchRoute = ({ method, url }: Pick<FastifyRequest, 'method' | 'url'>) =>
  new Refusal('not_found', `No such route: ${method} ${url.split('?')[0]?.slice(0, 256)}.`)

/** Allows pages of any origin to read the response, as on the relay. The route accepts an `sk-` token and no cookies. */
export function allowAnyOrigin(reply: FastifyReply): void {
  reply.header('access-control-allow-origin', '*')
}

/** Browsers send a preflight request before they send a credential. */
function servePreflights(app: FastifyInstance): void {
  const routes: readonly Route[] = Object.values(contract)
  for (const { path, method, access } of routes)
    if (access === 'key')
      app.options(path, { schema: { hide: true } }, async (request, reply) => {
        allowAnyOrigin(reply)
        return reply
          .code(204)
          .header('access-control-allow-methods', `${method}, OPTIONS`)
          .header('access-control-allow-headers', request.headers['access-control-request-headers'] ?? '*')
          .header('access-control-max-age', '86400')
          .send()
      })
}

/** Routes of similar gateways that do not exist here; without this, `/api/user/:id` would read each as an id. */
const MISSING_ROUTES = ['aff', 'aff_transfer', 'amount', 'checkin', 'pay', 'setting', 'topup'].map(
  name => `/api/user/${name}`,
)

function rejectMissingRoutes(app: FastifyInstance): void {
  for (const url of MISSING_ROUTES)
    app.route({
      method: ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'],
      url,
      schema: { hide: true },
      handler: async request => {
        throw noSuchRoute(request)
      },
    })
}
