import { parentPort, workerData } from 'node:worker_threads'
import type { ThreadOutcome } from './thread.ts'

/** The thread's side: runs the job and posts its result or error. */
export async function work<Job>(run: (job: Job) => unknown): Promise<void> {
  const post = (outcome: ThreadOutcome) => parentPort?.postMessage(outcome)
  try {
    post({ result: await run(workerData as Job) })
  } catch (error) {
    post({ error: (error as Error).message })
  }
}
