import type { FastifyInstance } from 'fastify'
import { Pool } from 'undici'

export type RouteRequest = {
  readonly method: string
  readonly path: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: Buffer
}
// biome-ignore lint/suspicious/noExplicitAny: tests check responses field by field
export type RouteResponse = { readonly status: number; readonly text: string; readonly body: any }
export type Send = (request: RouteRequest) => Promise<RouteResponse>

const AT_ONCE = 8

const responseOf = (status: number, contentType: unknown, text: string): RouteResponse => ({
  status,
  text,
  body: String(contentType).includes('json') ? JSON.parse(text) : undefined,
})

/** Over a few persistent connections. */
export function sendOverHttp(url: string): { send: Send; close(): Promise<void> } {
  const pool = new Pool(url, { connections: AT_ONCE, allowH2: false })
  return {
    async send({ method, path, headers = {}, body }) {
      const response = await pool.request({ method, path, headers, body: body ?? null })
      return responseOf(response.statusCode, response.headers['content-type'], await response.body.text())
    },
    close: () => pool.close(),
  }
}

/** Directly into the management API, without a socket: much faster, and the same from there on. */
export const sendInto =
  (app: FastifyInstance): Send =>
  async ({ method, path, headers = {}, body }) => {
    const {
      statusCode,
      headers: responseHeaders,
      body: text,
    } = await app.inject({
      method: method as 'GET',
      url: path,
      headers: { ...headers },
      ...(body === undefined ? {} : { payload: body }),
    })
    return responseOf(statusCode, responseHeaders['content-type'], text)
  }

/** Sends all requests, a few at a time, and passes each response on with its request. */
export async function sendAll<T>(
  send: Send,
  items: readonly T[],
  requestOf: (item: T) => RouteRequest,
  judge: (response: RouteResponse, item: T) => void,
): Promise<void> {
  const waiting = items.values()
  const sendNext = async () => {
    for (const item of waiting) judge(await send(requestOf(item)), item)
  }
  await Promise.all(Array.from({ length: AT_ONCE }, sendNext))
}
