import type { Worker } from 'node:worker_threads'
import { programFile } from '../../host/program-file.ts'
import { startProgramThread } from '../../host/program-thread.ts'

/** The objects of a statement are short-lived, so a larger young generation would only use more memory. */
const YOUNG_MB = 8

/** A process has one store, or one after the other: a writer and a reader for each. */
const MAX_SPARE = 2
const SPARE_MS = 5_000

/** Threads of closed stores, each with the timer that ends it. */
const spares = new Map<Worker, NodeJS.Timeout>()

/** By their names: a worker has listeners of Node.js too. */
function removeListeners(worker: Worker): void {
  for (const event of ['message', 'error', 'exit']) worker.removeAllListeners(event)
}

function removeSpare(worker: Worker): void {
  clearTimeout(spares.get(worker))
  spares.delete(worker)
  removeListeners(worker)
}

/** A thread without a store: that of a closed store if there is one, because a new one takes 30 ms of CPU time. */
export function takeThread(): Worker {
  const [spare] = spares.keys()
  if (spare !== undefined) {
    removeSpare(spare)
    spare.ref()
    return spare
  }
  return startProgramThread(programFile('store/engine/sqlite-thread'), {
    resourceLimits: { maxYoungGenerationSizeMb: YOUNG_MB },
  })
}

/** Afterwards, every store starts threads of its own. */
export async function endSpareThreads(): Promise<void> {
  const threads = [...spares.keys()]
  for (const thread of threads) removeSpare(thread)
  await Promise.all(threads.map(thread => thread.terminate()))
}

/** Keeps the thread of a closed store for a while. It does not keep the process alive. */
export function leaveThread(worker: Worker): void {
  removeListeners(worker)
  if (spares.size >= MAX_SPARE) {
    void worker.terminate()
    return
  }
  const end = () => {
    removeSpare(worker)
    void worker.terminate()
  }
  worker.unref()
  worker.once('error', end).once('exit', end)
  spares.set(worker, setTimeout(end, SPARE_MS).unref())
}
