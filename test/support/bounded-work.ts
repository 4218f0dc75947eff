import { runInNewContext } from 'node:vm'

const MOST_MS = 60_000

/**
 * Ends work that takes a minute. For inputs so long that work takes far below a second if it is linear in them, and hours if it is
 * quadratic.
 */
export const runBounded = <T>(work: () => T): T => runInNewContext('work()', { work }, { timeout: MOST_MS })
