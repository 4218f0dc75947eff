import { setTimeout as delay } from 'node:timers/promises'
import { Refusal, wrongMethod } from '../../domain/errors.ts'
import { NO_TOKEN } from '../../domain/token.ts'
import type { RelayIncoming, RelayOutgoing } from '../../http/relay-exchange.ts'
import type { VideoAsk } from '../../media/video.ts'
import type { VideoRow } from '../../store/engine/schema.ts'
import { deleteVideo, findVideo, listOwnVideos } from '../../store/records/videos.ts'
import { answerJson, commonHeaders } from '../answer/answer.ts'
import { assignCaller, credentialOf, isWithoutCredential } from '../callers/admit.ts'
import { identify } from '../callers/identify.ts'
import { credentialOfPerson } from '../callers/playground.ts'
import { badParameter } from '../operations/carry.ts'
import type { RequestReport } from '../request.ts'
import { createContent } from './content.ts'
import type { VideoDeps } from './deps.ts'
import { createPoller } from './poller.ts'
import { remixSpec, videoSpec } from './request.ts'
import { createSearch } from './search.ts'
import { createSubmit } from './submit.ts'
import { createSuspenseBook } from './suspense.ts'
import { openAccess, videoDialect } from './vendor.ts'
import { factsIn, presentTask, presentVideo } from './video-view.ts'

const HOST = /^[A-Za-z0-9.:[\]_-]{1,255}$/
const DEFAULT_PAGE = 20
const MAX_PAGE = 100
const LAST_MOMENT_MS = 5_000

const notFound = (id: string) =>
  new Refusal('video_not_found', `The video "${id.slice(0, 64)}" does not exist.`)

type VideoRouteCall = {
  readonly request: RelayIncoming
  readonly response: RelayOutgoing
  readonly requestId: string
  readonly report: RequestReport
  readonly path: string
  readonly id: string
}

type Serve = (call: VideoRouteCall) => Promise<void>

/** The routes of `/v1` that create, read, fetch and delete video jobs. */
export function createVideos(deps: VideoDeps) {
  const { db, nowMs, keyring, vendor, basePath } = deps
  const search = createSearch(deps)
  const suspense = createSuspenseBook(deps, search)
  const poller = createPoller(deps, search)
  const fetchContent = createContent(deps)
  const { submit, settled } = createSubmit(deps, suspense, baseOf)

  /** The base URL at which this client reaches the gateway. */
  function baseOf(request: RelayIncoming): string {
    const { host = '' } = request.headers
    if (!HOST.test(host)) return basePath
    return `${deps.clientAddress(request).isTls ? 'https' : 'http'}://${host}${basePath}`
  }

  /** A job of the caller; jobs of other users are not found. */
  async function own({ request, id }: VideoRouteCall): Promise<VideoRow> {
    const { caller } = await identify(deps, request, credentialOf(request))
    const row = /^video_[A-Za-z0-9]{24}$/.test(id) ? await findVideo(db, id) : undefined
    if (row?.user_id !== caller.userId) throw notFound(id)
    return row
  }

  const create =
    (isTask: boolean): Serve =>
    async ({ request, response, requestId, report, path }) => {
      const identified = await identify(deps, request, credentialOf(request))
      await submit({ request, response, requestId, report, path, spec: videoSpec, isTask, identified })
    }

  const present =
    (view: (row: VideoRow, base: string) => unknown): Serve =>
    async call => {
      const row = await poller.refresh(await own(call))
      answerJson(call.response, 200, commonHeaders(call.requestId), view(row, baseOf(call.request)))
    }

  const list: Serve = async ({ request, response, requestId }) => {
    const { caller } = await identify(deps, request, credentialOf(request))
    const query = new URLSearchParams(request.url?.split('?')[1] ?? '')
    const limitText = query.get('limit') ?? String(DEFAULT_PAGE)
    const limit = Number(limitText)
    if (!/^\d{1,3}$/.test(limitText) || limit < 1 || limit > MAX_PAGE)
      throw badParameter('limit', `must be a whole number from 1 to ${MAX_PAGE}`)
    const order = query.get('order') ?? 'desc'
    if (order !== 'asc' && order !== 'desc') throw badParameter('order', 'must be asc or desc')
    const after = query.get('after') || undefined
    const page = await listOwnVideos(db, caller.userId, { after, limit, isAscending: order === 'asc' })
    if (!page) throw badParameter('after', 'must be the id of one of your videos')
    const data = page.rows.map(row => presentVideo(row, baseOf(request)))
    answerJson(response, 200, commonHeaders(requestId), {
      object: 'list',
      data,
      first_id: data[0]?.id ?? null,
      last_id: data.at(-1)?.id ?? null,
      has_more: page.hasMore,
    })
  }

  /** A video may be opened in the address bar, where only the console session identifies the user. */
  async function assumeSession(request: RelayIncoming): Promise<void> {
    const userId = isWithoutCredential(request) ? await deps.sessionUser(request) : undefined
    if (userId !== undefined) assignCaller(request, credentialOfPerson({ userId, tokenId: NO_TOKEN }))
  }

  const content: Serve = async call => {
    await assumeSession(call.request)
    const row = await poller.refresh(await own(call))
    const { request, response, requestId } = call
    await fetchContent({ row, request, response, headers: commonHeaders(requestId) })
  }

  /** Deletes the job at the provider too, if possible; the provider's response is ignored. */
  function forget(row: VideoRow): void {
    const access = openAccess(keyring, row.id, row.access_sealed)
    const dialect = access && videoDialect(access.provider, row.sent_model)
    if (!access || !dialect?.remove || !row.upstream_id) return
    const job = { id: row.upstream_id, kind: row.kind, model: row.sent_model }
    vendor
      .ask(dialect.remove(job), access, row.sent_model)
      .catch(error => deps.onProblem(error, 'The provider did not delete a video.', row.id))
  }

  const remove: Serve = async call => {
    const row = await own(call)
    if (row.phase !== 'ended')
      throw new Refusal(
        'video_not_ready',
        `The video is ${row.status}. It can be deleted when it has finished.`,
      )
    if (!(await deleteVideo(db, row.id, Math.floor(nowMs() / 1000)))) throw notFound(row.id)
    forget(row)
    const body = { id: row.id, object: 'video.deleted', deleted: true }
    answerJson(call.response, 200, commonHeaders(call.requestId), body)
  }

  const remix: Serve = async call => {
    const source = await own(call)
    const access = openAccess(keyring, source.id, source.access_sealed)
    const remixIt = access && videoDialect(access.provider, source.sent_model)?.remix
    if (source.status !== 'completed')
      throw new Refusal(
        'video_not_ready',
        `The video is ${source.status}. Only a completed video can be remixed.`,
      )
    if (!access || !remixIt || !source.upstream_id)
      throw new Refusal('invalid_parameter', 'The provider of this video does not support remixes.')
    const job = { id: source.upstream_id, kind: source.kind, model: source.sent_model }
    const { request, response, requestId, report, path } = call
    const identified = await identify(deps, request, credentialOf(request))
    const facts = factsIn(source)
    const ask: Omit<VideoAsk, 'prompt'> = {
      ...facts,
      model: source.model,
      n: 1,
      stills: [],
      metadata: {},
      user: undefined,
      responseFormat: undefined,
    }
    await submit({
      request,
      response,
      requestId,
      report,
      path,
      spec: remixSpec({ model: source.model, ask }),
      isTask: false,
      identified,
      remix: {
        of: source.id,
        access,
        channelId: source.channel_id,
        submit: prompt => ({ ...remixIt(job, prompt), kind: source.kind }),
      },
    })
  }

  /** By path, then by method. */
  const ROUTES: readonly (readonly [RegExp, Readonly<Record<string, Serve>>])[] = [
    [/^\/v1\/videos$/, { POST: create(false), GET: list }],
    [/^\/v1\/videos\/([^/]+)$/, { GET: present(presentVideo), DELETE: remove }],
    [/^\/v1\/videos\/([^/]+)\/content$/, { GET: content }],
    [/^\/v1\/videos\/([^/]+)\/remix$/, { POST: remix }],
    [/^\/v1\/video\/generations$/, { POST: create(true) }],
    [/^\/v1\/video\/generations\/([^/]+)$/, { GET: present(presentTask) }],
  ]

  return {
    /** The handler of a path and method; undefined for a path of another API. */
    route(
      path: string,
      method: string,
    ): ((call: Omit<VideoRouteCall, 'path' | 'id'>) => Promise<void>) | undefined {
      for (const [pattern, methods] of ROUTES) {
        const match = pattern.exec(path)
        if (!match) continue
        // HEAD is handled like GET; Node.js omits the body.
        const verb = method === 'HEAD' ? 'GET' : method
        const serve = Object.hasOwn(methods, verb) ? methods[verb] : undefined
        if (!serve) throw wrongMethod(path, Object.keys(methods), method)
        return call => serve({ ...call, path, id: match[1] ?? '' })
      }
      return undefined
    },
    fetchContent,
    refresh: poller.refresh,
    forget,
    /** Waits briefly for running submissions, then aborts the rest: their charges go to suspense. */
    async close(cut: () => Promise<void>): Promise<void> {
      await poller.close()
      await Promise.race([settled(), delay(LAST_MOMENT_MS, undefined, { ref: false })])
      await cut()
      await settled()
      await suspense.close()
    },
  }
}

export type Videos = ReturnType<typeof createVideos>
