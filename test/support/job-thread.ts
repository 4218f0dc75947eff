import { setImmediate } from 'node:timers/promises'
import { runJobs } from '../../src/host/thread-jobs.ts'

/** Jobs for a thread that a test starts. */
export type TestJob = { readonly echo: string } | { readonly fail: string } | { readonly isFatal: true }

runJobs(async (job: TestJob): Promise<string> => {
  // Jobs would finish out of order here if the thread ran several at once.
  if ('echo' in job) {
    for (let turn = job.echo.length; turn > 0; turn--) await setImmediate()
    return job.echo
  }
  if ('fail' in job) throw new Error(job.fail)
  return process.exit(1)
})
