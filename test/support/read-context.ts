import type { ReadContext } from '../../src/relay/operations/operation.ts'

/** For operations that need nothing from the gateway while they read a request. */
export const READ_CONTEXT: ReadContext = {
  settings: () => {
    throw new Error('these tests read no settings')
  },
  isServed: () => true,
  idsAndClock: { newId: prefix => `${prefix}1`, nowS: () => 1_700_000_000 },
}
