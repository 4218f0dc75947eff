import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, it, type TestContext } from 'node:test'
import { Refusal } from '../../src/domain/errors.ts'
import { overloaded } from '../../src/http/budget.ts'
import { managementError, storeUnavailable } from '../../src/http/errors.ts'
import { COMMON_ERROR_FORMAT, relayErrorOf } from '../../src/relay/answer/error-format.ts'
import { identify } from '../../src/relay/callers/identify.ts'
import { ERROR_FORMATS } from '../../src/relay/operations/chats.ts'
import type { RelayDeps } from '../../src/relay/request.ts'
import { retryableRefusal, retryingFetch, withRetries } from './client.ts'

/** The refusal that a gateway in this state gives before it knows the caller. */
function refusalIn(state: { readonly isFenced?: boolean; readonly isOverloaded?: boolean }): Refusal {
  const deps = {
    isStopping: () => !state.isFenced && !state.isOverloaded,
    isFenced: () => state.isFenced === true,
    isOverloaded: () => state.isOverloaded === true,
  } as unknown as RelayDeps
  try {
    identify(deps, {} as never, 'sk-any')
  } catch (error) {
    return error as Refusal
  }
  return assert.fail('admitted')
}

const RETRYABLE = [
  refusalIn({ isOverloaded: true }),
  overloaded({ resource: 'memory' }),
  refusalIn({ isFenced: true }),
  storeUnavailable({ isOutcomeUnknown: false }),
  // src/ledger/ledger.ts
  new Refusal('ledger_unavailable', 'The ledger is unavailable, so the request was not sent to a provider.'),
]
const FINAL = [
  refusalIn({}),
  new Refusal('no_channel_available', 'No channel is available.'),
  new Refusal('insufficient_quota', 'The ledger is unavailable'),
]
const FORMATS = { common: COMMON_ERROR_FORMAT, ...ERROR_FORMATS }

const encoded = (refusal: Refusal, format: keyof typeof FORMATS) => {
  const error = relayErrorOf(refusal)
  return { status: error.status, text: JSON.stringify(FORMATS[format].errorBody(error, 'req_1')) }
}

/** A server that refuses its first requests like this. Returns its address, and the bodies that it received. */
async function startRefusing(t: TestContext, times: number, refusal: { status: number; text: string }) {
  const bodies: string[] = []
  const server = createServer(async (request, response) => {
    let body = ''
    for await (const chunk of request) body += chunk
    bodies.push(body)
    const { status, text } = bodies.length > times ? { status: 200, text: 'served' } : refusal
    response.writeHead(status, { 'content-type': 'application/json' }).end(text)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => server.close())
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`, bodies }
}

describe('the client of tests', () => {
  for (const format of Object.keys(FORMATS) as (keyof typeof FORMATS)[])
    it(`knows what a client may retry in the error format ${format}`, () => {
      for (const refusal of RETRYABLE) {
        const { status, text } = encoded(refusal, format)
        const code = refusal.code === 'store_unavailable' ? 'ledger_unavailable' : refusal.code
        for (const each of [text, `[${text}]`]) assert.equal(retryableRefusal(status, each), code, each)
      }
      for (const refusal of FINAL) {
        const { status, text } = encoded(refusal, format)
        assert.equal(retryableRefusal(status, text), undefined, text)
      }
    })

  it('retries an overloaded management API, and reports its outages', () => {
    const [busy, outage] = [overloaded({ resource: 'memory' }), storeUnavailable({ isOutcomeUnknown: false })]
    const refusalOf = (refusal: Refusal) => {
      const { status, body } = managementError(refusal)
      return retryableRefusal(status, JSON.stringify(body))
    }
    assert.deepEqual([refusalOf(busy), refusalOf(outage)], ['overloaded', undefined])
  })

  it('returns a 503 that is not from the gateway', () => {
    for (const text of [
      '',
      'busy',
      '[]',
      '{}',
      '{"error":null}',
      '{"error":"overloaded"}',
      '{"message":"overloaded"}',
    ])
      assert.equal(retryableRefusal(503, text), undefined, text)
  })

  it('sends the same request until it is served', async t => {
    const { url, bodies } = await startRefusing(t, 2, encoded(overloaded({ resource: 'memory' }), 'gemini'))
    const response = await retryingFetch(url, { method: 'POST', body: 'the body' })
    assert.deepEqual([response.status, await response.text()], [200, 'served'])
    assert.deepEqual(bodies, ['the body', 'the body', 'the body'])
    const again = await startRefusing(t, 1, encoded(overloaded({ resource: 'memory' }), 'common'))
    assert.equal((await retryingFetch(new Request(again.url, { method: 'POST', body: 'x' }))).status, 200)
    assert.deepEqual(again.bodies, ['x', 'x'])
  })

  it('sends once what it cannot send again, and what the test expects to be refused', async t => {
    const refusal = encoded(refusalIn({ isFenced: true }), 'common')
    const stream = await startRefusing(t, 1, refusal)
    const body = new Blob(['x']).stream()
    const response = await retryingFetch(stream.url, { method: 'POST', body, duplex: 'half' } as RequestInit)
    assert.equal(response.status, 503)
    const { url, bodies } = await startRefusing(t, 1, refusal)
    const refused = await retryingFetch(url, {}, { expectedRefusal: 'ledger_unavailable' })
    assert.deepEqual([refused.status, await refused.text(), bodies.length], [503, refusal.text, 1])
  })

  it('retries for another client, too', async () => {
    const replies = [encoded(overloaded({ resource: 'memory' }), 'common'), { status: 200, text: 'served' }]
    assert.equal((await withRetries(async () => replies.shift() ?? assert.fail())).text, 'served')
  })
})
