import assert from 'node:assert/strict'
import { it } from 'node:test'
import { createFailureLog } from '../../src/app/failure-log.ts'

it('a failure that repeats is logged once in ten seconds, with the number of those left out', () => {
  const lines: (readonly [string, Record<string, unknown>, string])[] = []
  const writer = (level: string) => (fields: Record<string, unknown>, message: string) =>
    void lines.push([level, fields, message])
  let nowMs = 1_000_000
  const logFailure = createFailureLog({ warn: writer('warn'), error: writer('error') } as never, () => nowMs)
  const err = new Error('down')
  for (let request = 0; request < 1_000; request++) logFailure(err, 'Quota could not be leased.')
  logFailure(err, 'Another failure.', 'warn')
  assert.deepEqual(lines, [
    ['error', { err }, 'Quota could not be leased.'],
    ['warn', { err }, 'Another failure.'],
  ])
  nowMs += 10_000
  logFailure(err, 'Quota could not be leased.')
  assert.deepEqual(lines.at(-1), ['error', { err, since_last: 999 }, 'Quota could not be leased.'])
  nowMs -= 3_600_000
  logFailure(err, 'Quota could not be leased.')
  assert.equal(lines.length, 4, 'a clock that was set back does not silence the log')
})
