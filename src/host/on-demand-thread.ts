import type { Worker } from 'node:worker_threads'
import { startProgramThread } from './program-thread.ts'
import type { JobDone, JobMessage } from './thread-jobs.ts'

/**
 * The thread ended before this job was done: its owner closed it, or the job crashed it, most likely by exceeding the
 * thread's memory limit.
 */
export class ThreadEndedError extends Error {
  override name = 'ThreadEndedError'
  readonly endedBy: 'job' | 'owner'

  constructor(endedBy: 'job' | 'owner') {
    super(endedBy === 'job' ? 'the job ended its thread' : 'the thread is closed')
    this.endedBy = endedBy
  }
}

export type OnDemandThread<Job, Result> = {
  /** Queues the job. Rejects with the error of the job or with a ThreadEndedError. */
  run(job: Job): Promise<Result>
  /** Queues the job if a thread is running. Its result is not reported. */
  notify(job: Job): void
  /** The number of jobs that run or wait. */
  pending(): number
  /** Whether the thread that was started last has finished a job. It may have ended since: `run` starts a new one. */
  isWarm(): boolean
  /** Ends the thread. Jobs that run or wait are rejected. */
  close(): Promise<void>
}

type OnDemandThreadOptions = {
  readonly program: URL
  readonly maxHeapMb: number
  /** The thread is ended after this long without a job. */
  readonly idleMs: number
  onFailure(error: Error): void
}

/** Runs jobs one after the other in one thread. The first job starts the thread; it ends when it has been idle for a while. */
export function createOnDemandThread<Job, Result>({
  program,
  maxHeapMb,
  idleMs,
  onFailure,
}: OnDemandThreadOptions): OnDemandThread<Job, Result> {
  /** In the order in which the thread runs them: the first is running. */
  const jobs = new Map<number, { readonly job: Job } & PromiseWithResolvers<Result>>()
  let worker: Worker | undefined
  let isWarm = false
  let isClosed = false
  let idleTimer: NodeJS.Timeout | undefined
  let nextId = 0

  function settle(done: JobDone<Result>): void {
    isWarm = true
    const { resolve, reject } = jobs.get(done.id) ?? {}
    jobs.delete(done.id)
    if (jobs.size === 0) {
      // An idle thread does not keep the process alive.
      worker?.unref()
      stopWhenIdle()
    }
    if ('failure' in done) reject?.(done.failure)
    else resolve?.(done.result)
  }

  /** After a crash, only the running job is rejected. A new thread runs the others. */
  function replace(): void {
    worker = undefined
    const [running] = jobs
    if (running === undefined) return
    const [id, { reject }] = running
    jobs.delete(id)
    reject(new ThreadEndedError('job'))
    for (const [waitingId, { job }] of jobs) post({ id: waitingId, job })
  }

  function start(): Worker {
    const started = startProgramThread(program, { resourceLimits: { maxOldGenerationSizeMb: maxHeapMb } })
    isWarm = false
    started.on('message', settle)
    started.on('error', error => onFailure(error as Error))
    // After a deliberate stop, `worker` is no longer this thread.
    started.on('exit', () => worker === started && replace())
    return started
  }

  function post(message: JobMessage<Job>): void {
    worker ??= start()
    worker.ref()
    worker.postMessage(message)
  }

  /** Clears `worker` before the thread ends, so that no new job is sent to it. */
  async function stop(): Promise<void> {
    clearTimeout(idleTimer)
    const ending = worker
    worker = undefined
    await ending?.terminate()
  }

  function stopWhenIdle(): void {
    clearTimeout(idleTimer)
    idleTimer = setTimeout(() => (jobs.size === 0 ? stop() : stopWhenIdle()), idleMs).unref()
  }

  return {
    run(job) {
      const waiting = Promise.withResolvers<Result>()
      if (isClosed) {
        waiting.reject(new ThreadEndedError('owner'))
        return waiting.promise
      }
      const id = nextId++
      jobs.set(id, { job, ...waiting })
      post({ id, job })
      return waiting.promise
    },
    notify: job => worker?.postMessage({ job } satisfies JobMessage<Job>),
    pending: () => jobs.size,
    isWarm: () => isWarm,
    async close() {
      isClosed = true
      const stopped = stop()
      for (const { reject } of jobs.values()) reject(new ThreadEndedError('owner'))
      jobs.clear()
      await stopped
    },
  }
}
