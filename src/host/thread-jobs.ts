import { parentPort, type Transferable } from 'node:worker_threads'

/** The messages between an on-demand thread and its owner. A job without an id gets no reply. */
export type JobMessage<Job> = { readonly id?: number; readonly job: Job }
export type JobDone<Result> = { readonly id: number } & (
  | { readonly result: Result }
  | { readonly failure: Error }
)

type RunOptions<Result> = {
  /** Memory of the result that is handed over instead of copied. */
  transfer?(result: Result): Transferable[]
}

/** Runs the jobs of this thread one after the other: concurrent jobs would only slow each other down. */
export function runJobs<Job, Result>(
  run: (job: Job) => Result | Promise<Result>,
  { transfer = () => [] }: RunOptions<Result> = {},
): void {
  async function reply({ id, job }: JobMessage<Job>): Promise<void> {
    try {
      const result = await run(job)
      if (id !== undefined)
        parentPort?.postMessage({ id, result } satisfies JobDone<Result>, transfer(result))
    } catch (error) {
      if (id === undefined) throw error
      parentPort?.postMessage({ id, failure: error as Error } satisfies JobDone<Result>)
    }
  }
  let last: Promise<void> = Promise.resolve()
  parentPort?.on('message', (message: JobMessage<Job>) => {
    last = last.then(() => reply(message))
  })
}
