import assert from 'node:assert/strict'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { describe, it } from 'node:test'
import { findPaged } from '../../src/domain/body-page.ts'
import { SETTINGS, type Settings } from '../../src/domain/setting.ts'
import { createBudget } from '../../src/http/budget.ts'
import { createBodySeal, pagePlace } from '../../src/identity/body-seal.ts'
import { createBodies } from '../../src/relay/bodies/bodies.ts'
import { BodyCapture } from '../../src/relay/bodies/capture.ts'
import type { RequestReport } from '../../src/relay/request.ts'
import type { BodyPageRow } from '../../src/store/engine/schema.ts'

const MIB = 1_048_576
const settings = Object.fromEntries(
  Object.entries(SETTINGS).map(([key, setting]) => [key, setting.default]),
) as Settings
const seal = createBodySeal(Buffer.alloc(32, 7))
const budgetOf = (maxBytes: number) => createBudget({ maxBytes, onShortage() {} })

function open(write: (pages: readonly BodyPageRow[]) => Promise<void>, memory = budgetOf(100 * MIB)) {
  let dropped = 0
  let failures = 0
  let requests = 0
  const bodies = createBodies({
    seal,
    memory,
    settings: () => settings,
    write,
    random: () => 0,
    now: () => 1,
    onDropped: count => {
      dropped += count
    },
    onFailure: () => {
      failures += 1
    },
  })
  return {
    close: bodies.close,
    state: () => ({ dropped, failures, used: memory.used() }),
    keep(request: string, answer: string, { userId = 0, pieces = 1 } = {}) {
      const capture = new BodyCapture('all', memory)
      capture.request(Buffer.from(request, 'latin1'))
      capture.answerType('application/json')
      const bytes = Buffer.from(answer, 'latin1')
      if (pieces === 1) capture.lastAnswer(bytes, answer)
      else {
        const length = Math.ceil(bytes.length / pieces)
        for (let at = 0; at < bytes.length; at += length) capture.answer(bytes.subarray(at, at + length))
      }
      const requestId = `req_${++requests}`
      const report = {
        requestId,
        operation: 'chat',
        startedMs: 0,
        startedAt: 0,
        upstream: { gatewayMs: undefined, ms: 0, isStreamed: false },
        span: undefined,
        capture,
        caller: { userId, tokenId: 7 },
      } as RequestReport
      const incoming = { url: '/v1/x', headers: {} } as IncomingMessage
      return { requestId, kept: bodies.end(report, incoming, { statusCode: 200 } as ServerResponse) }
    },
  }
}

/** What a page has about a request, as texts. */
function readPage(page: BodyPageRow, requestId: string) {
  const { exchange, request, answer } =
    findPaged(seal.open(pagePlace(page), page.content), requestId) ?? assert.fail(requestId)
  return { exchange, request: request.toString('latin1'), answer: answer.toString('latin1') }
}

const requestsIn = (page: BodyPageRow): string[] => [page.id, ...JSON.parse(page.other_requests)]

describe('the queue of bodies (docs/operating/bodies.md: What it costs)', () => {
  it('writes what waits when the gateway stops, and returns the memory', async () => {
    const pages: BodyPageRow[] = []
    const queue = open(async batch => void pages.push(...batch))
    for (let turn = 0; turn < 100; turn++) queue.keep('a'.repeat(100), 'b'.repeat(100))
    assert.ok(queue.state().used >= 100 * 200)
    await queue.close()
    assert.equal(pages.flatMap(requestsIn).length, 100)
    assert.deepEqual(queue.state(), { dropped: 0, failures: 0, used: 0 })
  })

  it('drops and counts bodies while the store is unavailable', async () => {
    const queue = open(() => Promise.reject(new Error('the store is away')))
    queue.keep('a'.repeat(100), 'b'.repeat(100))
    await queue.close()
    assert.deepEqual(queue.state(), { dropped: 1, failures: 1, used: 0 })
  })

  it('drops and counts bodies above 32 MiB that wait', async () => {
    const writing = Promise.withResolvers<void>()
    const queue = open(() => writing.promise)
    const long = 'a'.repeat(300 * 1024)
    for (let turn = 0; turn < 100; turn++) queue.keep(long, long)
    assert.deepEqual(queue.state(), { dropped: 36, failures: 0, used: 32 * MIB })
    writing.resolve()
    await queue.close()
    assert.equal(queue.state().used, 0)
  })

  it('drops a body for which the memory of all bodies has no room', async () => {
    const queue = open(async () => {}, budgetOf(1_000))
    queue.keep('a'.repeat(600), 'b'.repeat(600))
    await queue.close()
    assert.deepEqual(queue.state(), { dropped: 1, failures: 0, used: 0 })
  })

  it('puts the bodies of each user into pages of their own, and loses none', async () => {
    const pages: BodyPageRow[] = []
    const queue = open(async batch => void pages.push(...batch))
    const expected = new Map<string, { userId: number; request: string; answer: string }>()
    for (let turn = 0; turn < 1_500; turn++) {
      const userId = 1 + (turn % 3)
      // Every 100th is too large to be masked at once, and each of these has another number of pieces.
      const length = turn % 100 === 99 ? 100_000 + turn : turn
      const request = `"${turn} ${'é'.repeat(length)}"`
      const answer = `{"answer":${turn},"text":"${'z'.repeat(length)}"}`
      const { requestId } = queue.keep(request, answer, { userId, pieces: 1 + (turn % 5) })
      expected.set(requestId, { userId, request, answer })
    }
    await queue.close()
    assert.deepEqual(queue.state(), { dropped: 0, failures: 0, used: 0 })
    assert.equal(pages.flatMap(requestsIn).length, expected.size)
    assert.ok(pages.length < 100, String(pages.length))
    for (const page of pages)
      for (const requestId of requestsIn(page)) {
        const { exchange, request, answer } = readPage(page, requestId)
        assert.equal(exchange.token_id, 7)
        assert.deepEqual({ userId: page.user_id, request, answer }, expected.get(requestId), requestId)
        expected.delete(requestId)
      }
    assert.equal(expected.size, 0)
  })

  it('uses its memory again without changing what it has returned or written', async () => {
    const pages: BodyPageRow[] = []
    let onWrite = () => {}
    const queue = open(async batch => {
      pages.push(...batch)
      onWrite()
    })
    const secret = 'sk-proj-canary0123456789abcdef'
    const first = queue.keep('"first request"', `"first answer ${secret}"`)
    const large = queue.keep(`"${'large '.repeat(10_000)}"`, '"large answer"')
    for (let turn = 0; turn < 3; turn++) {
      const { promise, resolve } = Promise.withResolvers<void>()
      onWrite = resolve
      queue.keep(`"${'x'.repeat(30_000)}"`, `"${turn}"`)
      await promise
    }
    await queue.close()
    assert.ok(pages.length >= 3)
    const page = pages.find(each => requestsIn(each).includes(first.requestId)) ?? assert.fail()
    const expected = { request: '"first request"', answer: '"first answer [masked]"' }
    const { exchange, ...texts } = readPage(page, first.requestId)
    assert.deepEqual(texts, expected)
    assert.deepEqual([exchange.request.is_masked, exchange.answer.is_masked], [false, true])
    const { request, answer } = first.kept?.bodies() ?? assert.fail()
    assert.deepEqual({ request: request.toString(), answer: answer.toString() }, expected)
    assert.equal(large.kept?.bodies().request.toString(), `"${'large '.repeat(10_000)}"`)
  })
})
