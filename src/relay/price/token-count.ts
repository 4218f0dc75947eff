import { Worker } from 'node:worker_threads'
import { programFile } from '../../host/program-file.ts'
import type { CountDone, CountJob } from './token-count-thread.ts'

/** Counts the tokens of a text, or gives undefined where that cannot be had in time. */
export type TokenCounter = {
  count(text: string): Promise<number | undefined>
  close(): Promise<void>
}

/** A settlement waits so long for a count, and no longer: what is owed is then estimated. */
const WAIT_MS = 1_000
/** The table is loaded by the first count, which on a busy machine takes seconds: better late once than estimated. */
const FIRST_WAIT_MS = 10_000
const MAX_WAITING = 64
export const MAX_COUNTED_LENGTH = 1_048_576
/** The table takes some 100 MB. It is freed after this long without a count. */
const IDLE_MS = 300_000
const MAX_HEAP_MB = 384

type Options = { readonly waitMs?: number; readonly firstWaitMs?: number; onFailure(error: Error): void }

/** One thread for all counts, started by the first and ended when it has been idle for long. */
export function createTokenCounter({
  waitMs = WAIT_MS,
  firstWaitMs = FIRST_WAIT_MS,
  onFailure,
}: Options): TokenCounter {
  const waiting = new Map<number, (tokens: number | undefined) => void>()
  let worker: Worker | undefined
  let hasCounted = false
  let idle: NodeJS.Timeout | undefined
  let nextId = 0

  function answer(id: number, tokens: number | undefined): void {
    waiting.get(id)?.(tokens)
    waiting.delete(id)
  }

  function start(): Worker {
    const started = new Worker(programFile('relay/price/token-count-thread'), {
      resourceLimits: { maxOldGenerationSizeMb: MAX_HEAP_MB },
    })
    started.unref()
    hasCounted = false
    started.on('message', ({ id, tokens }: CountDone) => {
      hasCounted = true
      answer(id, tokens)
    })
    started.on('error', error => onFailure(error as Error))
    started.on('exit', () => {
      if (worker === started) worker = undefined
      for (const id of [...waiting.keys()]) answer(id, undefined)
    })
    return started
  }

  async function stop(): Promise<void> {
    clearTimeout(idle)
    await worker?.terminate()
  }

  return {
    count(text) {
      if (text === '') return Promise.resolve(0)
      if (text.length > MAX_COUNTED_LENGTH || waiting.size >= MAX_WAITING) return Promise.resolve(undefined)
      worker ??= start()
      clearTimeout(idle)
      idle = setTimeout(stop, IDLE_MS).unref()
      const id = nextId++
      const { promise, resolve } = Promise.withResolvers<number | undefined>()
      // The place in the queue is kept: the thread is still at work on it.
      const timer = setTimeout(() => resolve(undefined), hasCounted ? waitMs : firstWaitMs)
      waiting.set(id, tokens => {
        clearTimeout(timer)
        resolve(tokens)
      })
      worker.postMessage({ id, text } satisfies CountJob)
      return promise
    },
    close: stop,
  }
}
