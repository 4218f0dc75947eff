import { Worker } from 'node:worker_threads'
import type { JobDone, JobMessage } from './thread-jobs.ts'

/**
 * The thread ended before this job was done: its owner closed it, or the job ended it, most likely because it took more
 * memory than the thread may have.
 */
export class ThreadEndedError extends Error {
  override name = 'ThreadEndedError'
  readonly endedBy: 'job' | 'owner'

  constructor(endedBy: 'job' | 'owner') {
    super(endedBy === 'job' ? 'the job ended its thread' : 'the thread is closed')
    this.endedBy = endedBy
  }
}

export type IdleThread<Job, Result> = {
  /** Runs the job after those that were asked for before. Rejects with what the job threw, or with a ThreadEndedError. */
  ask(job: Job): Promise<Result>
  /** Runs the job if there is a thread, and does not wait for it. */
  notify(job: Job): void
  /** The number of jobs that run or wait. */
  pending(): number
  /** Whether the thread that now runs has finished a job. */
  isWarm(): boolean
  /** Ends the thread. Jobs that run or wait are rejected. */
  close(): Promise<void>
}

type IdleThreadOptions = {
  readonly program: URL
  readonly maxHeapMb: number
  /** The thread is ended after this long without a job. */
  readonly idleMs: number
  onFailure(error: Error): void
}

/** One thread for all jobs, one after the other. The first job starts the thread, and it ends after it has been idle. */
export function createIdleThread<Job, Result>({
  program,
  maxHeapMb,
  idleMs,
  onFailure,
}: IdleThreadOptions): IdleThread<Job, Result> {
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
    if ('failure' in done) reject?.(done.failure)
    else resolve?.(done.result)
  }

  /** Only the job that ran is rejected. The others are given to a new thread. */
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
    const started = new Worker(program, { resourceLimits: { maxOldGenerationSizeMb: maxHeapMb } })
    started.unref()
    isWarm = false
    started.on('message', settle)
    started.on('error', error => onFailure(error as Error))
    // A thread that was ended on purpose is no longer the worker by then.
    started.on('exit', () => worker === started && replace())
    return started
  }

  function post(message: JobMessage<Job>): void {
    worker ??= start()
    worker.postMessage(message)
  }

  /** The worker is forgotten before it ends, so that no job is given to a thread that is about to end. */
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
    ask(job) {
      const waiting = Promise.withResolvers<Result>()
      if (isClosed) {
        waiting.reject(new ThreadEndedError('owner'))
        return waiting.promise
      }
      const id = nextId++
      jobs.set(id, { job, ...waiting })
      post({ id, job })
      stopWhenIdle()
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
