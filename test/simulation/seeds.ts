import assert from 'node:assert/strict'
import { simulate } from './simulate.ts'

const replay = (seed: number) =>
  `seed ${seed}; SLUICE_SEED=${seed} node --test test/simulation/fleet.test.ts runs it alone`

/** Runs these seeds, and returns the distinct faults that occurred. */
export async function keepsPromises(first: number, last: number): Promise<ReadonlySet<string>> {
  let answered = 0
  const faults = new Set<string>()
  for (let seed = first; seed <= last; seed++) {
    const result = await simulate(seed)
    assert.deepEqual(result.violations, [], replay(seed))
    answered += result.answered
    for (const fault of result.faults.keys()) faults.add(fault)
  }
  assert.ok(answered > 0)
  return faults
}
