import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { EMPTY, type Usage } from '../../src/domain/usage.ts'
import { emptyReading } from '../../src/metering/stream-meter.ts'
import { createStreamBudget } from '../../src/relay/stream-budget.ts'

type Request = Parameters<typeof createStreamBudget>[0]
type Budgeted = Parameters<typeof createStreamBudget>[1]

describe('the hold of a running stream', () => {
  it('is not extended for more tool calls than are plausible', () => {
    const progress: number[] = []
    const extended: number[] = []
    const hold = {
      held: () => 1_000,
      progress: (cost: number) => progress.push(cost),
      extend: async (nanos: number) => extended.push(nanos) > 0,
    }
    const priced = { costOf: (_: unknown, { searches, fileSearches }: Usage) => searches + fileSearches }
    const toolCalls = { searches: 1_000_000, fileSearches: 1_000_000 }
    const most = Number.POSITIVE_INFINITY
    const limits = { input: most, output: most, reasoning: undefined, furtherOutput: most, seconds: most }
    const budget = createStreamBudget(
      { hold, priced } as unknown as Request,
      {
        channel: {},
        outgoing: {},
        meter: { reading: { ...emptyReading(), usage: EMPTY, toolCalls } },
        limits: { ...limits, toolCalls: 400 },
      } as unknown as Budgeted,
    )
    assert.equal(budget(), true)
    assert.deepEqual(progress, [800])
    assert.deepEqual(extended, [])
  })
})
