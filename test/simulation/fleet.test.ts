import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { PLANTED_BUGS } from './planted-bugs.ts'
import { keepsPromises } from './seeds.ts'
import { simulate } from './simulate.ts'

/** test/system/simulation/fleet.test.ts continues with the next. */
const SEEDS = 60
/** A bug is found by a few seeds of these. */
const SEEDS_FOR_A_BUG = 200

describe('a fleet in a simulated world (docs/adr/0034-a-simulated-world.md)', () => {
  const { SLUICE_SEED } = process.env
  const first = Number(SLUICE_SEED ?? 1)
  const last = SLUICE_SEED === undefined ? SEEDS : first

  it(`keeps its promises through the faults of every seed (${first} to ${last})`, async () => {
    const faults = await keepsPromises(first, last)
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
