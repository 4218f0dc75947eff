import { ALL_PAIRS, describeCharges, describePairs } from '../../support/format-pairs.ts'
import { oneEngine } from '../../support/gateway.ts'

for (const engine of oneEngine('sqlite')) describeCharges(engine, ALL_PAIRS)
describePairs(ALL_PAIRS)
