import { createOnDemandThread, ThreadEndedError } from '../../host/on-demand-thread.ts'
import { programFile } from '../../host/program-file.ts'

/** Counts the tokens of a text; undefined: the count timed out. */
export type TokenCounter = {
  count(text: string): Promise<number | undefined>
  close(): Promise<void>
}

/** A settlement waits this long for a count. Then the tokens are estimated. */
const WAIT_MS = 1_000
/** The first count reads the vocabulary, which may take seconds on a busy machine. Waiting once is better than estimating. */
const FIRST_WAIT_MS = 10_000
const MAX_WAITING = 64
export const MAX_COUNTED_LENGTH = 1_048_576
/** The thread takes about 20 MB. It ends after this long without a count. */
const IDLE_MS = 300_000
const MAX_HEAP_MB = 96

type Options = { readonly waitMs?: number; readonly firstWaitMs?: number; onFailure(error: Error): void }

/** Counts tokens on a worker thread. */
export function createTokenCounter({
  waitMs = WAIT_MS,
  firstWaitMs = FIRST_WAIT_MS,
  onFailure,
}: Options): TokenCounter {
  const thread = createOnDemandThread<string, number>({
    program: programFile('relay/price/token-count-thread'),
    maxHeapMb: MAX_HEAP_MB,
    idleMs: IDLE_MS,
    onFailure,
  })

  return {
    async count(text) {
      if (text === '') return 0
      if (text.length > MAX_COUNTED_LENGTH || thread.pending() >= MAX_WAITING) return undefined
      const { promise: late, resolve } = Promise.withResolvers<undefined>()
      const counted = thread.run(text).catch(error => {
        // The end of a thread is either reported already or intended.
        if (!(error instanceof ThreadEndedError)) onFailure(error)
        return undefined
      })
      // The job stays in the queue after the timeout: the thread will still run it.
      const timer = setTimeout(() => resolve(undefined), thread.isWarm() ? waitMs : firstWaitMs)
      return Promise.race([counted, late]).finally(() => clearTimeout(timer))
    },
    close: thread.close,
  }
}
