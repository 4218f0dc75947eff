import { describeKills, KILL_CASES } from '../support/relay-points.ts'

/** One kill after the hold, one within the response, and one after the settlement. All points are system tests. */
const POINTS = [
  { at: 'after the lease is committed', how: 'whole' },
  { at: 'after the first byte', how: 'stream' },
  { at: 'after the settle is committed', how: 'whole' },
]

describeKills({
  engine: 'sqlite',
  cases: KILL_CASES.filter(each => POINTS.some(({ at, how }) => each.at === at && each.how === how)),
})
