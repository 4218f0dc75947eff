import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { readBody } from './body.ts'
import { type CountFile, hintOf, openCountFile } from './count.ts'
import { deliver, sendJson, type Tally } from './deliver.ts'
import type { Bill, Format, Reply } from './formats/format.ts'
import { fallback, findRoute, type Match } from './formats.ts'
import { Refusal } from './refusal.ts'
import { bound, steer } from './steering.ts'

export type SimulatorOptions = {
  readonly port?: number
  readonly host?: string
  readonly latencyMs?: number
  readonly paceMs?: number
  readonly countFile?: string
  /** Milliseconds since 1970. */
  readonly now?: () => number
  /** Told of a failure of the simulator itself; the client gets a 500 as well, if it still can. */
  readonly onFailure?: (error: unknown) => void
}

export type Simulator = { readonly url: string; readonly port: number; close(): Promise<void> }

/** Starts a stand-in for the providers. Closing it cuts what is still being answered, and counts it so. */
export async function startSimulator(options: SimulatorOptions = {}): Promise<Simulator> {
  const { port = 0, host = '127.0.0.1' } = options
  const count = openCountFile(options.countFile)
  const serve = createService(options, count)
  const running = new Set<Promise<void>>()
  const server = createServer((request, response) => {
    const served = serve(request, response).finally(() => running.delete(served))
    running.add(served)
  })
  // Longer than any client keeps an idle connection, so that it is never the simulator who hangs up first.
  server.keepAliveTimeout = 120_000
  try {
    server.listen(port, host)
    await once(server, 'listening')
  } catch (error) {
    count.close()
    throw error
  }
  const address = server.address() as AddressInfo
  const name = address.family === 'IPv6' ? `[${address.address}]` : address.address
  async function shut(): Promise<void> {
    const closed = new Promise(resolve => server.close(resolve))
    server.closeAllConnections()
    await closed
    await Promise.all(running)
    count.close()
  }
  let shutting: Promise<void> | undefined
  function close(): Promise<void> {
    shutting ??= shut()
    return shutting
  }
  return { url: `http://${name}:${address.port}`, port: address.port, close }
}

type Service = (request: IncomingMessage, response: ServerResponse) => Promise<void>

function createService(options: SimulatorOptions, count: CountFile): Service {
  const { now = Date.now, onFailure = rethrow } = options
  const defaults = {
    latencyMs: bound('latencyMs', options.latencyMs ?? 0),
    paceMs: bound('paceMs', options.paceMs ?? 0),
  }
  const run = randomBytes(5).toString('hex')
  let served = 0

  /** The walk of a request: route, key, body, answer, delivery. */
  return async function serve(request, response) {
    served += 1
    const id = `${run}${served.toString(36).padStart(6, '0')}`
    response.setHeader('x-request-id', `req_${id}`)
    const { method = '', url = '/', headers } = request
    const path = url.split('?', 1)[0] ?? url
    const match = findRoute(method, path)
    const format = match?.format ?? fallback
    try {
      const { route, params } = existing(match, method, path)
      const key = format.keyOf(headers)
      if (key === undefined) throw new Refusal('no_key', 'There is no API key in the request.')
      const body = method === 'POST' ? await readBody(request) : ''
      if (body === undefined) return
      const reply = route.answer({ id, time: new Date(now()), headers, params, body })
      const model = billOf(reply)?.model
      const timing = {
        latencyMs: steer('latencyMs', headers, model) ?? defaults.latencyMs,
        paceMs: steer('paceMs', headers, model) ?? defaults.paceMs,
      }
      await deliver(response, reply, { timing, tally: tallyFor(reply, { request, path, key }) })
    } catch (error) {
      refuse(response, format, error)
    }
  }

  function tallyFor(
    reply: Reply,
    { request, path, key }: { request: IncomingMessage; path: string; key: string },
  ): Tally {
    const bill = billOf(reply)
    if (bill === undefined) return () => {}
    const named = request.headers['x-client-request-id']
    return (completionTokens, isFinished) =>
      count.append({
        time: new Date(now()).toISOString(),
        id: bill.id,
        client_request_id: typeof named === 'string' ? named : null,
        key_hint: hintOf(key),
        path,
        model: bill.model,
        stream: reply.kind === 'stream',
        prompt_tokens: bill.promptTokens,
        completion_tokens: completionTokens,
        finished: isFinished,
      })
  }

  function refuse(response: ServerResponse, format: Format, error: unknown): void {
    const isOurs = !(error instanceof Refusal)
    const refusal = isOurs ? new Refusal('broken', 'The simulator itself failed.') : error
    if (response.headersSent) response.destroy()
    else if (!response.destroyed) sendJson(response, refusal.status, format.encodeRefusal(refusal))
    if (isOurs) onFailure(error)
  }
}

function existing(match: Match | undefined, method: string, path: string) {
  if (match === undefined) throw new Refusal('unknown_path', `There is nothing at ${path}.`)
  const { route, params } = match
  if (route === undefined) throw new Refusal('wrong_method', `${path} does not take ${method}.`)
  return { route, params }
}

function billOf(reply: Reply): Bill | undefined {
  return reply.kind === 'free' ? undefined : reply.bill
}

function rethrow(error: unknown): never {
  throw error
}
