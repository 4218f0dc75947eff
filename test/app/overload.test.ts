import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { createLagSampler } from '../../src/app/overload.ts'

function watchLag() {
  const histogram = { count: 1, mean: 0, lagMs: 0, percentile: () => histogram.lagMs * 1e6, reset() {} }
  const sampler = createLagSampler(histogram)
  const overloadAfter = (...lagsMs: number[]) => {
    for (const lagMs of lagsMs) {
      histogram.lagMs = lagMs
      sampler.sample()
    }
    return sampler.isOverloaded()
  }
  return { histogram, overloadAfter }
}

describe('the overload watch', () => {
  it('reports an overload when the median lag of three samples in a row is above one second', () => {
    const { overloadAfter } = watchLag()
    assert.equal(overloadAfter(1_001, 30_000), false)
    assert.equal(overloadAfter(1_001), true)
    assert.equal(overloadAfter(1_000), false)
  })

  it('reports none after single pauses of any length', () => {
    const { overloadAfter } = watchLag()
    assert.equal(overloadAfter(30_000, 0, 30_000, 30_000, 0, 30_000), false)
  })

  it('keeps the last result while there are no samples', () => {
    const { histogram, overloadAfter } = watchLag()
    overloadAfter(2_000, 2_000, 2_000)
    histogram.count = 0
    assert.ok(overloadAfter(0))
  })
})
