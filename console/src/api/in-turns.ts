import { mapConcurrently as runInTurns } from '../../../src/domain/map-concurrently.ts'

/** Number of calls in flight at once. */
const AT_ONCE = 5

export const inTurns = <In, Out>(items: readonly In[], run: (item: In) => Promise<Out>): Promise<Out[]> =>
  runInTurns(items, AT_ONCE, run)
