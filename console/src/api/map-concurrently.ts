import { mapConcurrently as mapWithConcurrency } from '../../../src/domain/map-concurrently.ts'

/** The maximum number of concurrent calls. */
const MAX_CALLS = 5

export const mapConcurrently = <In, Out>(
  items: readonly In[],
  run: (item: In) => Promise<Out>,
): Promise<Out[]> => mapWithConcurrency(items, MAX_CALLS, run)
