import { programFile } from '../host/program-file.ts'
import { startProgramThread } from '../host/program-thread.ts'
import { CommandError } from './command.ts'

/** The single message of a thread, before it ends. */
export type ThreadOutcome = { readonly result: unknown } | { readonly error: string }

/** Runs a file of this folder as a thread, for work that is long or waits for the disk. */
export async function runThread<Result>(
  name: 'backup-thread' | 'journal-thread',
  job: object,
): Promise<Result> {
  const outcome = await new Promise<ThreadOutcome>((resolve, reject) => {
    const worker = startProgramThread(programFile(`cli/${name}`), { workerData: job })
    worker.once('message', resolve)
    worker.once('error', reject)
    worker.once('exit', () => reject(new Error(`${name} ended without a result`)))
  })
  if ('error' in outcome) throw new CommandError(outcome.error)
  return outcome.result as Result
}
