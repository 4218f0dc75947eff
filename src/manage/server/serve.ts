import { createHash } from 'node:crypto'
import type { FastifyInstance, FastifyRequest, RouteOptions } from 'fastify'
import { z } from 'zod'
import type { Actor } from '../../domain/actor.ts'
import { invalid, Refusal } from '../../domain/errors.ts'
import type { Confirmation } from '../../domain/node.ts'
import { ROLE, roleName } from '../../domain/role.ts'
import type { Share } from '../../http/budget.ts'
import { faultMessage } from '../contract/fault-messages.ts'
import { type Contract, hasKeyParameter, type Route } from '../contract/route.ts'
import { isSameOrigin, SESSION_COOKIE } from '../people/session-cookie.ts'
import type { Handlers, RouteCall } from './call.ts'
import { createChange } from './change.ts'
import type { Deps } from './deps.ts'
import { tagOf } from './reference.ts'

const envelope = (data: unknown) =>
  data === undefined ? { success: true, message: '' } : { success: true, message: '', data }

const envelopeSchema = ({ data, reply }: Route) =>
  reply ?? z.object({ success: z.literal(true), message: z.string(), ...(data ? { data } : {}) })

/** The data of a change that some nodes have not confirmed yet. Data that is no object is in `result`. */
const withNodes = (data: unknown, nodes: Confirmation) =>
  typeof data === 'object' && data !== null && !Array.isArray(data)
    ? { ...data, nodes }
    : { ...(data !== undefined && { result: data }), nodes }

const unconfirmedSchema = z
  .object({
    success: z.literal(true),
    message: z.string(),
    data: z.looseObject({
      nodes: z.object({
        confirmed: z.int(),
        waiting: z.array(z.object({ id: z.string(), until: z.int() })),
      }),
    }),
  })
  .describe('The change is made, but some nodes have not confirmed it yet')
  .meta({ id: 'Unconfirmed' })

const errorSchema = z
  .object({
    success: z.literal(false),
    code: z.string(),
    message: z.string(),
    errors: z.array(z.object({ path: z.string(), message: z.string() })).optional(),
  })
  .meta({ id: 'Error' })

/** The only route of a session whose imported password must be changed. */
const OWN_ACCOUNT = '/api/user/self'

/** Checks the credential and the role before a byte of the body is read. */
function createGuard({ identify, clientAddress }: Deps) {
  return (route: Route) =>
    async (request: FastifyRequest): Promise<void> => {
      const { address, isTls } = clientAddress(request.raw)
      request.caller = { address, isTls, actor: undefined }
      if (route.access === 'public' || route.access === 'key') return
      const actor = await actorOf(request, route, identify)
      if (actor === undefined) return
      request.caller = { address, isTls, actor }
      if (actor.mustChangePassword && route.path !== OWN_ACCOUNT)
        throw new Refusal(
          'password_change_required',
          'The password was imported and breaks the rule for passwords. Change it with PUT /api/user/self first.',
        )
      const needed = route.access === 'any' ? ROLE.user : ROLE[route.access]
      if (actor.role < needed)
        throw new Refusal(
          'forbidden',
          `This requires the role ${roleName(needed)}; yours is ${roleName(actor.role)}.`,
        )
    }
}

async function actorOf(request: FastifyRequest, route: Route, identify: Deps['identify']) {
  const { authorization } = request.headers
  const session = isKeySent(request, route) ? undefined : request.cookies[SESSION_COOKIE]
  if (authorization !== undefined) {
    // On a route that accepts both kinds, the handler reads an sk- token.
    if (route.access === 'any' && /^(bearer\s+)?sk-/i.test(authorization)) return undefined
    return identify.byAccessToken(authorization)
  }
  if (session !== undefined && isSameOrigin(request)) return identify.bySession(session)
  if (route.access === 'any') return undefined
  return identify.byAccessToken('')
}

/** Whether the URL has a `?key=` that is not a parameter of the route: the console sends no such request. */
const isKeySent = ({ query }: FastifyRequest, route: Route) =>
  Object.hasOwn(query as object, 'key') && !hasKeyParameter(route)

/** Types that a form on any page can send without a preflight request. */
const FORM_TYPE = /^\s*(?:text\/plain|application\/x-www-form-urlencoded|multipart\/form-data)\b/i

async function mustBeOwnPage(request: FastifyRequest): Promise<void> {
  if (!isSameOrigin(request))
    throw new Refusal('cross_site_refused', 'Pages of other sites cannot sign in here. Open the console.')
  if (FORM_TYPE.test(request.headers['content-type'] ?? ''))
    throw new Refusal(
      'cross_site_refused',
      'Forms cannot sign in. Send JSON with Content-Type: application/json.',
    )
}

/** Registers every route of a contract: guard, validation, handler, envelope. */
export function serveContract<C extends Contract>(
  app: FastifyInstance,
  contract: C,
  handlers: Handlers<C>,
  deps: Deps,
): void {
  const guard = createGuard(deps)
  const change = createChange(deps)

  for (const [name, route] of Object.entries(contract) as [keyof C & string, Route][]) {
    const handle = handlers[name] as (call: RouteCall) => Promise<unknown>
    const options: RouteOptions = {
      method: route.method,
      url: route.path,
      config: { route },
      onRequest: guard(route),
      ...(route.refusesOtherSites ? { preHandler: mustBeOwnPage } : {}),
      schema: {
        operationId: name,
        summary: route.summary,
        tags: [tagOf(route.path)],
        ...(route.params ? { params: route.params } : {}),
        ...(route.query ? { querystring: route.query } : {}),
        ...(route.body ? { body: route.body } : {}),
        ...(route.access === 'public' ? { security: [] } : {}),
        response: {
          200: envelopeSchema(route),
          ...(route.method === 'GET' || route.reply ? {} : { 202: unconfirmedSchema }),
          ...(route.relayErrors ? {} : { '4xx': errorSchema }),
        },
      },
      handler: async (request, reply) => {
        const { address, isTls, actor } = request.caller
        // The relay has its own rules for repeated requests.
        const run = route.isRelayed ? rejectChanges : change.runOncePerKey
        const data = await run(request, route, changing =>
          handle({
            params: request.params as never,
            query: request.query as never,
            body: request.body as never,
            actor: actor as Actor,
            authorization: request.headers.authorization ?? '',
            address,
            isTls,
            requestId: request.id,
            userAgent: request.headers['user-agent'] ?? '',
            reply,
            change: changing as never,
          }),
        )
        const { confirmation } = request
        // docs/reference/management-api.md: Changes in a fleet
        if (confirmation) reply.code(202)
        if (route.reply) return data
        return envelope(confirmation ? withNodes(data, confirmation) : data)
      },
    }
    if (route.isRelayed) serveWithoutParsing(app, options)
    else app.route(options)
  }
}

/** Registers a route whose body is not parsed, because the relay reads it. */
function serveWithoutParsing(app: FastifyInstance, options: RouteOptions): void {
  app.register(async scope => {
    scope.removeAllContentTypeParsers()
    scope.addContentTypeParser('*', async () => undefined)
    scope.route(options)
  })
}

const rejectChanges: ReturnType<typeof createChange>['runOncePerKey'] = (_request, _route, handle) =>
  handle(() => Promise.reject(new Error('A relayed route makes no change itself.')))

/** The contract's schemas validate every part of a request; each error has its path. */
export const validatorCompiler = ({ schema, httpPart }: { schema: z.ZodType; httpPart?: string }) => {
  return (value: unknown) => {
    const result = schema.safeParse(value, { error: faultMessage })
    if (result.success) return { value: result.data }
    const errors = result.error.issues.slice(0, 50).map(issue => ({
      path: issue.path.length > 0 ? issue.path.join('.') : (httpPart ?? 'body'),
      message: issue.message,
    }))
    return { error: invalid(errors) }
  }
}

export const bodyDigest = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex')

declare module 'fastify' {
  interface FastifyRequest {
    caller: { address: string; isTls: boolean; actor: Actor | undefined }
    /** Digest of the raw bytes, to distinguish a repeat from another request. */
    bodyDigest: string
    /** The code of the error that the request gets; empty for a success. */
    errorCode: string
    /** Set if nodes have not confirmed the change of the request in time. */
    confirmation: Confirmation | undefined
    /** The body's share of the memory of all bodies. */
    share: Share | undefined
  }
  interface FastifyContextConfig {
    route?: Route
  }
}
