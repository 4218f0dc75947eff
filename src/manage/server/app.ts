import type { IncomingMessage } from 'node:http'
import cookie from '@fastify/cookie'
import Fastify, {
  type FastifyBaseLogger,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  LogController,
} from 'fastify'
import { serializerCompiler } from 'fastify-type-provider-zod'
import { invalidField, Refusal, UnreachableError } from '../../domain/errors.ts'
import { BUDGET_SHORTAGES } from '../../domain/shortage.ts'
import { createShare, overloaded } from '../../http/budget.ts'
import { type ErrorAnswer, managementError, refusalOfError } from '../../http/errors.ts'
import { RELAY_SECURITY } from '../../http/relay-headers.ts'
import { createRequestIds } from '../../http/request-id.ts'
import { Gatherer } from '../../wire/gather.ts'
import { JsonError } from '../../wire/json.ts'
import { readJson } from '../../wire/json-skim.ts'
import { isConsoleFile, pageStatus, serveConsole } from './console.ts'
import type { Deps } from './deps.ts'
import { serveReference } from './reference.ts'
import { allowAnyOrigin, noSuchRoute, refuseOtherMethod, serveEverything } from './routes.ts'
import { bodyDigest, validatorCompiler } from './serve.ts'
import { createStoreWatch, errorFormatOf } from './store-watch.ts'

const MAX_BODY_BYTES = 4 * 1024 * 1024

const SECURITY_HEADERS = {
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self'; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
} as const

/** Reads the body up to its limit. Its bytes count against the memory budget until the response is sent. */
function readBytes(request: FastifyRequest, payload: IncomingMessage): Promise<Buffer> {
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>()
  const gatherer = new Gatherer()
  const fail = (error: Error) => {
    payload.off('data', onData).pause()
    reject(error)
  }
  const onData = (chunk: Buffer) => {
    gatherer.push(chunk)
    if (gatherer.size() > MAX_BODY_BYTES) fail(tooLarge())
    else if (!request.share?.take(chunk.length)) fail(overloaded(BUDGET_SHORTAGES.memory))
  }
  if (Number(request.headers['content-length'] ?? 0) > MAX_BODY_BYTES) return Promise.reject(tooLarge())
  // Events instead of an iterator, because the `resume` event sends `100 Continue` (http/server.ts).
  payload
    .on('data', onData)
    .once('end', () => resolve(gatherer.whole()))
    .once('error', fail)
  return promise
}

const tooLarge = () =>
  new Refusal('too_large', `The body is larger than ${MAX_BODY_BYTES / 1024 / 1024} MiB.`)

const tooManyConnections = () =>
  new Refusal('overloaded', 'The gateway has too many connections. Try again in a moment.', {
    retryAfterS: 1,
  })

/** Maps an error of the framework to an error code of the management API; undefined for all other errors. */
function frameworkRefusal(error: Error & { statusCode?: number; code?: string }): Refusal | undefined {
  // The framework also sets a status on our own validation errors.
  if (error instanceof Refusal) return error
  if (error.code === 'FST_ERR_CTP_BODY_TOO_LARGE') return tooLarge()
  if (error.statusCode !== undefined && error.statusCode >= 400 && error.statusCode < 500)
    return invalidField('body', error.message)
  return error.statusCode === 503
    ? new Refusal('shutting_down', 'The gateway is shutting down. Try again in a moment.', { retryAfterS: 5 })
    : undefined
}

/** The management API with its OpenAPI document and the console, ready for requests. */
export async function createManageApp(deps: Deps, log: FastifyBaseLogger): Promise<FastifyInstance> {
  const newRequestId = createRequestIds()
  const app: FastifyInstance = Fastify({
    // Set in the constructor, so that Fastify does not load its own compilers, which are a hundred modules.
    schemaController: {
      compilersFactory: {
        buildValidator: () => validatorCompiler as never,
        buildSerializer: () => serializerCompiler as never,
      },
    },
    loggerInstance: log,
    logController: new LogController({ disableRequestLogging: true, requestIdLogLabel: 'request_id' }),
    genReqId: () => newRequestId(Date.now()),
    bodyLimit: MAX_BODY_BYTES,
    exposeHeadRoutes: false,
    routerOptions: { ignoreTrailingSlash: true, ignoreDuplicateSlashes: true, maxParamLength: 256 },
    // Fastify calls this for invalid URLs, which reach neither a hook nor a route.
    frameworkErrors: (error, request, reply) => {
      addCommonHeaders(request, reply)
      const refusal =
        error.code === 'FST_ERR_BAD_URL' ? invalidField('path', 'must be a valid URL') : noSuchRoute(request)
      send(reply, managementError(refusal))
      report(request, reply)
    },
  })

  /** Logs and counts a request. */
  function report(request: FastifyRequest, reply: FastifyReply): void {
    if (isConsoleFile(request)) return
    const { errorCode } = request
    deps.metrics.onManagementRequest(reply.statusCode, errorCode)
    request.log.info({
      method: request.method,
      // Only the path is logged: queries may contain search terms with personal data.
      path: request.url.split('?')[0],
      status: reply.statusCode,
      ...(errorCode !== '' && { code: errorCode }),
      ms: Math.round(reply.elapsedTime * 10) / 10,
      user_id: request.caller?.actor?.id,
    })
  }

  app.decorateRequest('bodyDigest', '')
  app.decorateRequest('errorCode', '')
  app.decorateRequest('caller')
  app.decorateRequest('confirmation')
  app.decorateRequest('share')

  // Every body is parsed as JSON, with any Content-Type: the contract has no other format.
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', async (request: FastifyRequest, payload: IncomingMessage) => {
    mustBeUncompressed(request)
    const bytes = await readBytes(request, payload)
    request.bodyDigest = bodyDigest(bytes)
    if (bytes.length === 0) return undefined
    try {
      return (await readJson(bytes, false)).value
    } catch (error) {
      if (error instanceof JsonError) throw invalidField('body', error.message)
      throw error
    }
  })

  const watchStore = createStoreWatch(deps.isStoreAnswering, send)
  app.addHook('onRequest', async (request, reply) => {
    addCommonHeaders(request, reply)
    const share = createShare(deps.memory)
    request.share = share
    reply.raw.once('close', () => share.end())
    if (request.routeOptions.config.route?.access === 'key') allowAnyOrigin(reply)
    if (deps.exceedsConnectionLimit(request.raw)) throw tooManyConnections()
    watchStore(reply)
  })
  app.addHook('onResponse', async (request, reply) => report(request, reply))

  app.setErrorHandler((error: Error, request, reply) => {
    const refusal = frameworkRefusal(error) ?? refusalOfError(error, request.id)
    if (refusal.code === 'internal_error' || error instanceof UnreachableError)
      request.log.error({ err: error }, 'A request failed.')
    send(reply, errorFormatOf(request)(refusal))
  })

  await app.register(cookie)
  await serveReference(app, deps)
  const { sendPage } = await serveConsole(app, deps)
  app.setNotFoundHandler(async (request, reply) => {
    refuseOtherMethod(request)
    const status = pageStatus(request)
    if (status !== undefined) return sendPage(reply, status)
    throw noSuchRoute(request)
  })
  serveEverything(app, deps)

  await app.ready()
  return app
}

/** Only the relay accepts compressed bodies. Here they would be reported as invalid JSON. */
function mustBeUncompressed({ headers }: FastifyRequest): void {
  const encoding = headers['content-encoding'] ?? 'identity'
  if (encoding !== 'identity')
    throw invalidField(
      'body',
      `must not be compressed (${encoding.slice(0, 60)}); send it without Content-Encoding`,
    )
}

/** Paths of the relay that the management API serves. */
const RELAY_PATH = /^\/+(?:v1|dashboard)\//

/** Adds the headers of every response. */
function addCommonHeaders({ id, url }: Pick<FastifyRequest, 'id' | 'url'>, reply: FastifyReply): void {
  reply.header('x-request-id', id).headers(SECURITY_HEADERS)
  if (url.startsWith('/api')) reply.header('cache-control', 'no-store')
  else if (RELAY_PATH.test(url)) reply.headers(RELAY_SECURITY)
}

function send(reply: FastifyReply, answer: ErrorAnswer): void {
  reply.request.errorCode = answer.code
  reply
    .code(answer.status)
    .headers({ ...answer.headers })
    .type('application/json; charset=utf-8')
    // Errors have their own shape, which the route's schema does not describe.
    .serializer((body: unknown) => JSON.stringify(body))
    .send(answer.body)
}
