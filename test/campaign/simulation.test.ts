import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { simulate } from '../simulation/simulate.ts'

/** test/simulation and test/system/simulation run the first seeds. */
const FIRST = 201
const SEEDS = process.env.SLUICE_CAMPAIGN === undefined ? 5 : 10_000

describe('a fleet in a simulated world (docs/adr/0034-a-simulated-world.md)', () => {
  it(`keeps its promises through the faults of ${SEEDS} seeds`, async t => {
    const faults = new Map<string, number>()
    /** By seed. `SLUICE_SEED=n node --test test/simulation/fleet.test.ts` runs one alone. */
    const violations: Record<number, readonly string[]> = {}
    let answered = 0
    for (let seed = FIRST; seed < FIRST + SEEDS; seed++) {
      const result = await simulate(seed)
      if (result.violations.length > 0) violations[seed] = result.violations
      answered += result.answered
      for (const [fault, count] of result.faults) faults.set(fault, (faults.get(fault) ?? 0) + count)
    }
    const sum = faults.values().reduce((total, count) => total + count, 0)
    t.diagnostic(`${SEEDS} seeds: ${answered} requests answered, ${sum} faults, ${faults.size} distinct ones`)
    assert.deepEqual(violations, {})
  })
})
