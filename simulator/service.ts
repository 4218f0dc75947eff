import { randomBytes } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { readBody } from './body.ts'
import { CONTROL_PREFIX, control } from './control.ts'
import { type CountFile, hintOf } from './count.ts'
import { deliver, sendJson, type Tally } from './deliver.ts'
import { type ActiveFault, createFaults } from './faults.ts'
import type { Protocol, Reply } from './formats/format.ts'
import { fallback, findRoute, type Match } from './formats.ts'
import { createJobs } from './jobs.ts'
import { modelIn, peekModel } from './json.ts'
import { ProviderError } from './provider-error.ts'
import { createRequestLog, type RecordedRequest } from './requests.ts'
import { honest, type Script } from './script.ts'
import { bound, steer } from './steering.ts'

export type SimulatorListener = (request: IncomingMessage, response: ServerResponse) => Promise<void>

export type ServiceOptions = {
  readonly latencyMs?: number
  readonly paceMs?: number
  /** Milliseconds since 1970. */
  readonly now?: () => number
  /** Called for a failure of the simulator itself; the client gets a 500 if possible. */
  readonly onFailure?: (error: unknown) => void
}

/** A request being handled. */
type PendingRequest = {
  readonly id: string
  readonly path: string
  readonly request: IncomingMessage
  readonly match: Match | undefined
  readonly format: Protocol
  readonly key: string | undefined
  readonly visit: RecordedRequest
}

/** The correct response and the fault to apply to it. */
type Outcome = { readonly script: Script; readonly chosen: ActiveFault | undefined }

export function createService(options: ServiceOptions, count: CountFile): SimulatorListener {
  const { now = Date.now, onFailure = rethrow } = options
  const defaults = {
    latencyMs: bound('latencyMs', options.latencyMs ?? 0),
    paceMs: bound('paceMs', options.paceMs ?? 0),
  }
  const run = randomBytes(5).toString('hex')
  const faults = createFaults()
  const requests = createRequestLog()
  const jobs = createJobs()
  let served = 0

  return async function serve(request, response) {
    served += 1
    const id = `${run}${served.toString(36).padStart(6, '0')}`
    response.setHeader('x-request-id', `req_${id}`)
    const { method = '', url = '/', headers } = request
    const path = url.split('?', 1)[0] ?? url
    const match = findRoute(method, path)
    const format = match?.format ?? fallback
    try {
      if (path.startsWith(CONTROL_PREFIX)) {
        const report = await control(request, path, { faults, requests, jobs })
        if (report !== undefined) sendJson(response, 200, JSON.stringify(report))
        return
      }
      const key = format.keyOf(headers)
      const visit = requests.record({ method, path, key, headers })
      await handle({ id, path, request, match, format, key, visit }, response)
    } catch (error) {
      refuse(response, format, error)
    }
  }

  /** Handles a request: route, key, body, answer, fault, delivery. */
  async function handle(pending: PendingRequest, response: ServerResponse): Promise<void> {
    const outcome = await decide(pending)
    if (outcome === undefined) return
    const { headers } = pending.request
    const script =
      outcome.chosen === undefined ? outcome.script : spoil(outcome.script, outcome.chosen, pending)
    const model = script.bill?.model
    const timing = {
      latencyMs: steer('latencyMs', headers, model) ?? defaults.latencyMs,
      paceMs: steer('paceMs', headers, model) ?? defaults.paceMs,
    }
    await deliver(response, script, { timing, tally: tallyFor(script, pending) })
  }

  /** Undefined if the client disconnected before its request was complete. */
  async function decide(pending: PendingRequest): Promise<Outcome | undefined> {
    const { id, request, match, path, format, key, visit } = pending
    const { method = '', headers } = request
    const globalFault = faults.ofRequest(headers)
    if (globalFault?.fault.isEarly === true) return { script: honest(EMPTY_REPLY), chosen: globalFault }
    let text = ''
    let bytes: Buffer = Buffer.alloc(0)
    try {
      const { route, params } = existing(match, method, path)
      if (key === undefined) throw new ProviderError('no_key', 'There is no API key in the request.')
      if (method === 'POST') {
        const body = await readBody(request, isEarly)
        if (body.kind === 'left') return undefined
        if (body.kind === 'unwanted') {
          visit.model = peekModel(body.start)
          return { script: honest(EMPTY_REPLY), chosen: faults.ofModel(visit.model) }
        }
        bytes = body.bytes
        text = isForm(headers) ? '' : bytes.toString('utf8')
      }
      const query = new URLSearchParams((request.url ?? '').split('?')[1] ?? '')
      const time = new Date(now())
      const reply = route.answer({ id, time, headers, params, body: text, bytes, query, key, path, jobs })
      if (reply.kind === 'free' || reply.kind === 'file')
        return { script: honest(reply), chosen: globalFault }
      visit.model = reply.bill.model
      const chosen = globalFault ?? faults.ofModel(reply.bill.model)
      // An error response means that no work was done; every other fault occurs after the job was accepted.
      if (reply.kind === 'whole' && !chosen?.name.startsWith('status-')) reply.take?.()
      return { script: honest(reply), chosen }
    } catch (error) {
      if (!(error instanceof ProviderError)) throw error
      visit.model ??= modelIn(text)
      // A fault for all requests also applies to requests that would have been refused.
      if (globalFault === undefined) throw error
      const reply = { kind: 'free', body: format.encodeRefusal(error) } as const
      return { script: honest(reply, error.status), chosen: globalFault }
    }
  }

  function spoil(
    script: Script,
    chosen: ActiveFault,
    { request, visit, format, key }: PendingRequest,
  ): Script {
    visit.fault = chosen.name
    const { headers, url = '/' } = request
    return faults.spoil(chosen, script, { format, key, headers, url, time: new Date(now()) })
  }

  function isEarly(start: Buffer): boolean {
    return faults.ofModel(peekModel(start))?.fault.isEarly === true
  }

  function tallyFor({ bill, isStream }: Script, { request, path, key = '' }: PendingRequest): Tally {
    if (bill === undefined) return () => {}
    const clientRequestId = request.headers['x-client-request-id']
    return (completionTokens, isFinished) =>
      count.append({
        time: new Date(now()).toISOString(),
        id: bill.id,
        client_request_id: typeof clientRequestId === 'string' ? clientRequestId : null,
        key_hint: hintOf(key),
        path,
        model: bill.model,
        stream: isStream,
        prompt_tokens: bill.promptTokens,
        completion_tokens: completionTokens,
        ...(bill.units && { units: bill.units }),
        finished: isFinished,
      })
  }

  function refuse(response: ServerResponse, format: Protocol, error: unknown): void {
    const isOurs = !(error instanceof ProviderError)
    const refusal = isOurs ? new ProviderError('broken', 'The simulator itself failed.') : error
    if (response.headersSent) response.destroy()
    else if (!response.destroyed)
      sendJson(
        response,
        refusal.status,
        format.encodeRefusal(refusal),
        format.failureHeaders?.(refusal.status),
      )
    if (isOurs) onFailure(error)
  }
}

/** The reply when a fault responds before the body is read. */
const EMPTY_REPLY: Reply = { kind: 'free', body: '' }

const isForm = ({ 'content-type': type = '' }: IncomingMessage['headers']) =>
  /^(multipart\/|audio\/|application\/octet-stream)/i.test(type)

function existing(match: Match | undefined, method: string, path: string) {
  if (match === undefined) throw new ProviderError('unknown_path', `There is nothing at ${path}.`)
  const { route, params } = match
  if (route === undefined) throw new ProviderError('wrong_method', `${path} does not take ${method}.`)
  return { route, params }
}

function rethrow(error: unknown): never {
  throw error
}
