import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import type { Api } from './gateway.ts'
import { until } from './process.ts'
import type { createResources } from './relay.ts'

export type Resources = ReturnType<typeof createResources>
export type RelayRequest = {
  readonly path?: string
  readonly method?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: unknown
}
export type Expectation = {
  readonly status: number
  readonly code: string
  readonly rule: string
  /** The action that an administrator, who owns the token, is offered. */
  readonly action?: string | undefined
  /** The type of the log row: 5 for an error that cost nothing. */
  readonly type?: 2 | 5 | undefined
  /** False if the row has other words than the client got. */
  readonly isFoundByText?: boolean | undefined
}
export const MESSAGES = [{ role: 'user', content: 'Hello' }]
export const chat = (model: string, more: Readonly<Record<string, unknown>> = {}): RelayRequest => ({
  body: { model, messages: MESSAGES, ...more },
})
/** A gateway whose errors are looked for, in this process or in its own. */
type Gateway = {
  readonly url: string
  readonly api: Api
  readonly metricsUrl: string
  /** The lines of its log. */
  lines(): readonly Readonly<Record<string, unknown>>[]
}

const portOf = (url: string) => Number(new URL(url).port)

/** Sends requests that end with an error, and looks for their reports. */
export function createErrorReports(gateway: () => Gateway) {
  const api: Api = (...call) => gateway().api(...call)

  const send = (
    key: string,
    { path = '/v1/chat/completions', method = 'POST', headers, body }: RelayRequest,
  ) =>
    fetch(`${gateway().url}${path}`, {
      method,
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', ...headers },
      ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    }).then(async response => ({
      status: response.status,
      text: await response.text(),
      requestId: response.headers.get('x-request-id') ?? '',
    }))

  /** Checks that a request is found by its id everywhere, with the rule that decided. */
  async function mustBeFound(
    { must }: Pick<Resources, 'must'>,
    reply: { readonly requestId: string; readonly text?: string },
    { status, code, rule, action, type = 5, isFoundByText = true }: Expectation,
  ): Promise<void> {
    const { requestId, text = '' } = reply
    // The row of a video job that the gateway searches for is written when the search ends.
    const row = await until(`the row of ${requestId}`, async () => {
      const { status: responseStatus, body } = await api('GET', `/api/log/request/${requestId}`)
      return responseStatus === 200 ? body.data.rows[0] : undefined
    })
    assert.equal(JSON.parse(row.other).error_code, code)
    const { items } = await must(api('GET', `/api/log/?request_id=${requestId}`))
    assert.deepEqual([items.length, items[0]?.type], [1, type])

    const byId = await must(api('GET', `/api/log/explain?q=${requestId}`))
    assert.deepEqual([byId.rule, byId.action?.kind], [rule, action], JSON.stringify(byId))
    assert.equal(byId.request.request_id, requestId)
    assert.ok(byId.sentences[0].includes(code) && byId.sentences.length >= 2, JSON.stringify(byId.sentences))
    if (isFoundByText) {
      // A developer pastes what the client printed.
      const pasted = encodeURIComponent(`Error code: ${status} - ${text}`)
      const byText = await must(api('GET', `/api/log/explain?q=${pasted}`))
      assert.deepEqual([byText.rule, byText.request?.request_id], [rule, requestId])
    }
    await mustBeLogged(reply, { status, code })
  }

  const metricsText = async () => (await fetch(gateway().metricsUrl)).text()

  /** The line of a request, and its count. */
  async function mustBeLogged(
    { requestId }: { readonly requestId: string },
    { status, code }: Pick<Expectation, 'status' | 'code'>,
    metric = 'sluice_requests_total',
  ) {
    const line = await until('the log line', () =>
      gateway()
        .lines()
        .find(each => each.request_id === requestId && each.status !== undefined),
    )
    assert.deepEqual([line.status, line.code], [status, code])
    assert.match(
      await metricsText(),
      new RegExp(`^${metric}\\{.*status="${status}",code="${code}"\\} [1-9]`, 'm'),
    )
    return line
  }

  /** Writes a part of a request on a connection of its own, and returns the response as far as it is received. */
  async function openRaw(head: string) {
    const socket = connect(portOf(gateway().url), '127.0.0.1')
    let received = ''
    socket.setEncoding('utf8').on('data', text => {
      received += text
    })
    socket.on('error', () => {})
    await once(socket, 'connect')
    socket.write(head)
    return {
      socket,
      answer: () =>
        until(
          'the answer',
          () => {
            const requestId = /x-request-id: (\S+)/i.exec(received)?.[1]
            return requestId === undefined ? undefined : { requestId, status: Number(received.split(' ')[1]) }
          },
          120_000,
        ),
    }
  }

  return { api, send, mustBeFound, mustBeLogged, metricsText, openRaw }
}

export const headOf = (key: string, path = '/v1/chat/completions') =>
  `POST ${path} HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer ${key}\r\nContent-Type: application/json\r\nContent-Length: 100\r\n`
