import { describe, it } from 'node:test'
import { keepsPromises } from '../../simulation/seeds.ts'

/** test/simulation/fleet.test.ts runs those before, the campaign those after. */
const FIRST = 61
const LAST = 200

describe('a fleet in a simulated world (docs/adr/0034-a-simulated-world.md)', () => {
  it(`keeps its promises through the faults of the seeds ${FIRST} to ${LAST}`, async () => {
    await keepsPromises(FIRST, LAST)
  })
})
