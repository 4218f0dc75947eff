import cluster, { type Worker } from 'node:cluster'
import { performance } from 'node:perf_hooks'
import { createLocks } from './locks.ts'
import type { Assignment, Broadcast, ToSupervisor, ToWorker } from './messages.ts'
import { createRpc, type Rpc } from './rpc.ts'

/** What every worker asks for beyond news and locks, such as rates; `end` when the worker is gone. */
export type Services = {
  readonly words: Omit<ToSupervisor, 'hello' | 'ready' | 'others' | 'enter' | 'leave'>
  end(): void
}

export type SupervisorOptions = {
  readonly program: string
  readonly args: readonly string[]
  /** Settings the workers start with, the port among them. */
  readonly env: Readonly<Record<string, string>>
  readonly assignments: readonly Assignment[]
  /** How long a worker may take to finish what runs when all are stopped. */
  readonly drainMs: number
  services(): Services
  onDeath(slot: number, how: string): void
}

/** A worker did not even start: the program ends as it did. */
export class WorkerStartError extends Error {
  readonly exitCode: number
  constructor(slot: number, exitCode: number) {
    super(`worker ${slot} could not start`)
    this.name = 'WorkerStartError'
    this.exitCode = exitCode
  }
}

const PING_EVERY_MS = 1_000
const SILENT_MS = 5_000
const START_MS = 60_000
const LATE_TICK_MS = 3_000
const CALM_MS = 10_000
const FIRST_WAIT_MS = 100
const MAX_WAIT_MS = 5_000
const STOP_GRACE_MS = 10_000

type Crew = {
  readonly worker: Worker
  readonly post: Rpc<ToWorker>
  readonly startedMs: number
  heardMs: number
  isReady: boolean
}
type Slot = {
  readonly assignment: Assignment
  crew: Crew | undefined
  /** Resolves when somebody is there again. */
  staffed: PromiseWithResolvers<void>
  /** Deaths in a row, each soon after a start. */
  deaths: number
}

/**
 * Keeps a worker in every slot and carries what they have to tell each other. A dead one is replaced at once, and
 * settles its journal as it starts; a silent one is ended first.
 */
export function startSupervisor(options: SupervisorOptions) {
  const { program, args, env, assignments, services, onDeath, drainMs } = options
  cluster.setupPrimary({ exec: program, args: [...args] })
  const locks = createLocks()
  const started = Promise.withResolvers<void>()
  const slots = assignments.map(
    (assignment): Slot => ({ assignment, crew: undefined, staffed: Promise.withResolvers(), deaths: 0 }),
  )
  let isStopping = false
  let tickedMs = performance.now()

  function staff(slot: Slot): void {
    const worker = cluster.fork(env)
    const service = services()
    const post = createRpc<ToWorker, ToSupervisor>(
      {
        send: (message, sent) => worker.send(message as object, undefined, sent),
        onMessage: listener => worker.on('message', listener),
      },
      {
        hello: async () => slot.assignment,
        ready: async () => {
          crew.isReady = true
          crew.heardMs = performance.now()
          if (slots.every(each => each.crew?.isReady)) started.resolve()
        },
        others: broadcast => tellAll(broadcast, slot),
        enter: name => locks.enter(name, crew),
        leave: name => locks.leave(name, crew),
        ...service.words,
      },
    )
    const now = performance.now()
    const crew: Crew = { worker, post, startedMs: now, heardMs: now, isReady: false }
    slot.crew = crew
    slot.staffed.resolve()
    // An error to send is followed by the exit, which is what counts.
    worker.on('error', () => {})
    worker.once('exit', (code, signal) => {
      post.fail()
      service.end()
      locks.forget(crew)
      slot.crew = undefined
      slot.staffed = Promise.withResolvers()
      if (isStopping) return
      const how = signal ?? `exit ${code}`
      onDeath(slot.assignment.slot, how)
      // Before the first start is through, what is wrong with one is wrong with all.
      if (!crew.isReady) started.reject(new WorkerStartError(slot.assignment.slot, code ?? 1))
      slot.deaths = performance.now() - crew.startedMs < CALM_MS ? slot.deaths + 1 : 0
      const wait = slot.deaths <= 1 ? 0 : Math.min(MAX_WAIT_MS, FIRST_WAIT_MS * 2 ** (slot.deaths - 2))
      setTimeout(() => (isStopping ? undefined : staff(slot)), wait)
    })
  }

  /** Done when the slot has done it, whoever sits there by then. */
  async function tell(slot: Slot, { name, input }: Broadcast): Promise<void> {
    while (!isStopping) {
      const { crew } = slot
      // Whoever comes next reads everything anew, so there is no news for an empty slot.
      if (!crew && name === 'news') return
      await slot.staffed.promise
      if (!slot.crew) continue
      const asked = slot.crew
      try {
        await asked.post.ask(name, input as never)
        return
      } catch (error) {
        if (slot.crew === asked) throw error
      }
    }
  }

  async function tellAll(broadcast: Broadcast, except?: Slot): Promise<void> {
    await Promise.all(slots.filter(slot => slot !== except).map(slot => tell(slot, broadcast)))
  }

  function watch(): void {
    const now = performance.now()
    // Who was suspended with the whole machine was not silent.
    const wasAsleep = now - tickedMs > LATE_TICK_MS
    tickedMs = now
    for (const { crew } of slots) {
      if (!crew) continue
      if (wasAsleep) crew.heardMs = now
      if (now - crew.heardMs > (crew.isReady ? SILENT_MS : START_MS)) crew.worker.process.kill('SIGKILL')
      crew.post.ask('ping', null).then(
        () => {
          crew.heardMs = performance.now()
        },
        () => {}, // It has ended; its exit is heard apart.
      )
    }
  }

  for (const slot of slots) staff(slot)
  const watching = setInterval(watch, PING_EVERY_MS)

  const ended = (worker: Worker) =>
    worker.isDead() ? Promise.resolve() : new Promise<void>(resolve => worker.once('exit', () => resolve()))

  return {
    /** When every worker listens. */
    ready: started.promise,
    tellAll,
    async stop(): Promise<void> {
      isStopping = true
      clearInterval(watching)
      const crews = slots.flatMap(({ crew }) => crew ?? [])
      const cut = setTimeout(() => {
        for (const { worker } of crews) worker.process.kill('SIGKILL')
      }, drainMs + STOP_GRACE_MS)
      for (const { post } of crews) post.tell('stop', null)
      await Promise.all(crews.map(({ worker }) => ended(worker)))
      clearTimeout(cut)
    },
  }
}
