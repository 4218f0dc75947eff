import assert from 'node:assert/strict'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { describe, it } from 'node:test'
import { SETTINGS, type Settings } from '../../src/domain/setting.ts'
import { createBudget } from '../../src/http/budget.ts'
import { createBodySeal } from '../../src/identity/body-seal.ts'
import { createBodies } from '../../src/relay/bodies/bodies.ts'
import { createCapture } from '../../src/relay/bodies/capture.ts'
import type { RequestReport } from '../../src/relay/request.ts'
import type { BodyRow } from '../../src/store/engine/schema.ts'

const MIB = 1_048_576
const settings = Object.fromEntries(
  Object.entries(SETTINGS).map(([key, setting]) => [key, setting.default]),
) as Settings
const budgetOf = (maxBytes: number) => createBudget({ maxBytes, onShortage() {} })

function open(write: (rows: readonly BodyRow[]) => Promise<void>, memory = budgetOf(100 * MIB)) {
  let dropped = 0
  let failures = 0
  let requests = 0
  const bodies = createBodies({
    seal: createBodySeal(Buffer.alloc(32, 7)),
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
    keep(requestBytes: number, answerBytes: number) {
      const capture = createCapture('all', memory)
      capture.request(Buffer.alloc(requestBytes, 'a'))
      capture.answerType('application/json')
      capture.answer(Buffer.alloc(answerBytes, 'b'))
      const report: RequestReport = {
        requestId: `req_${++requests}`,
        operation: 'chat',
        startedMs: 0,
        startedAt: 0,
        upstream: { gatewayMs: undefined, ms: 0, isStreamed: false },
        span: undefined,
        capture,
      }
      const request = { url: '/v1/x', headers: {} } as IncomingMessage
      bodies.end(report, request, { statusCode: 200 } as ServerResponse)
    },
  }
}

describe('the queue of bodies (docs/operating/bodies.md: What it costs)', () => {
  it('writes what waits when the gateway stops, and returns the memory', async () => {
    const rows: BodyRow[] = []
    const queue = open(async batch => void rows.push(...batch))
    for (let turn = 0; turn < 100; turn++) queue.keep(100, 100)
    assert.ok(queue.state().used >= 100 * 200)
    await queue.close()
    assert.equal(rows.length, 100)
    assert.deepEqual(queue.state(), { dropped: 0, failures: 0, used: 0 })
  })

  it('drops and counts bodies while the store is unavailable', async () => {
    const queue = open(() => Promise.reject(new Error('the store is away')))
    queue.keep(100, 100)
    await queue.close()
    assert.deepEqual(queue.state(), { dropped: 1, failures: 1, used: 0 })
  })

  it('drops and counts bodies above 32 MiB that wait', async () => {
    const writing = Promise.withResolvers<void>()
    const queue = open(() => writing.promise)
    for (let turn = 0; turn < 100; turn++) queue.keep(300 * 1024, 300 * 1024)
    assert.deepEqual(queue.state(), { dropped: 36, failures: 0, used: 32 * MIB })
    writing.resolve()
    await queue.close()
    assert.equal(queue.state().used, 0)
  })

  it('drops a body for which the memory of all bodies has no room', async () => {
    const queue = open(async () => {}, budgetOf(1_000))
    queue.keep(600, 600)
    await queue.close()
    assert.deepEqual(queue.state(), { dropped: 1, failures: 0, used: 0 })
  })
})
