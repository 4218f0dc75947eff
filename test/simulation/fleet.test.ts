import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { PLANTED_BUGS } from './planted-bugs.ts'
import { simulate } from './simulate.ts'

/** The campaign continues with the next. */
const SEEDS = 200
/** A bug is found by a few seeds of these. */
const SEEDS_FOR_A_BUG = 200

const replay = (seed: number) =>
  `seed ${seed}; SLUICE_SEED=${seed} node --test test/simulation/fleet.test.ts runs it alone`

describe('a fleet in a simulated world (docs/adr/0034-a-simulated-world.md)', () => {
  const { SLUICE_SEED } = process.env
  const first = Number(SLUICE_SEED ?? 1)
  const last = SLUICE_SEED === undefined ? SEEDS : first

  it(`keeps its promises through the faults of every seed (${first} to ${last})`, async () => {
    let answered = 0
    const faults = new Set<string>()
    for (let seed = first; seed <= last; seed++) {
      const result = await simulate(seed)
      assert.deepEqual(result.violations, [], replay(seed))
      answered += result.answered
      for (const fault of result.faults.keys()) faults.add(fault)
    }
    assert.ok(answered > 0)
    if (SLUICE_SEED === undefined) assert.ok(faults.size > 80, `only ${faults.size} distinct faults`)
  })

  it('runs a seed again exactly', async () => {
    const [one, other] = [await simulate(7), await simulate(7)]
    assert.deepEqual(other, one)
  })

  // A change of the product changes which seed finds a bug: the search starts at the one that found it last.
  for (const [name, { foundBy, ...bug }] of Object.entries(PLANTED_BUGS))
    it(`finds the planted bug: ${name}`, async t => {
      for (let seed = foundBy; seed < foundBy + SEEDS_FOR_A_BUG; seed++) {
        const [violation] = (await simulate(seed, bug)).violations
        if (violation === undefined) continue
        t.diagnostic(`seed ${seed}, ${violation}`)
        return
      }
      assert.fail(`not found by ${SEEDS_FOR_A_BUG} seeds`)
    })
})
