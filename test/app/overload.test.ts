import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { createLagSampler } from '../../src/app/overload.ts'

describe('the overload watch', () => {
  it('reports an overload while the median lag is above one second', () => {
    const histogram = { count: 1, lagMs: 0, percentile: () => histogram.lagMs * 1e6, reset() {} }
    const { sample, isOverloaded } = createLagSampler(histogram)
    for (const [lagMs, expected] of [
      [1_001, true],
      [1_000, false],
      [30_000, true],
    ] as const) {
      histogram.lagMs = lagMs
      sample()
      assert.equal(isOverloaded(), expected, `${lagMs} ms`)
    }
  })

  it('keeps the last lag while nothing was measured', () => {
    const histogram = { count: 1, percentile: () => 2e9, reset: () => (histogram.count = 0) }
    const { sample, isOverloaded } = createLagSampler(histogram)
    sample()
    histogram.percentile = () => 0
    sample()
    assert.ok(isOverloaded())
  })
})
