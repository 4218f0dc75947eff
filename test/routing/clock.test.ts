import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { createMonotonicClock, monotonicMs } from '../../src/routing/clock.ts'

describe('a steady clock', () => {
  it('continues from its last value when the system clock is set back', () => {
    let systemMs = 10_000_000
    const nowMs = createMonotonicClock(() => systemMs)
    const startMs = nowMs()
    systemMs -= 3_600_000
    assert.equal(nowMs(), startMs)
    systemMs += 59_000
    assert.equal(nowMs(), startMs + 59_000)
    systemMs += 1_000
    assert.equal(nowMs(), startMs + 60_000)
  })
})

describe('the clock of rate limits', () => {
  it('does not depend on the system clock', t => {
    t.mock.timers.enable({ apis: ['Date'], now: 0 })
    const beforeMs = monotonicMs()
    t.mock.timers.setTime(3_600_000)
    const elapsedMs = monotonicMs() - beforeMs
    assert.ok(elapsedMs >= 0 && elapsedMs < 60_000)
  })
})
