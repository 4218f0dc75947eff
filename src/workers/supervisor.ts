import cluster, { type Worker } from 'node:cluster'
import { performance } from 'node:perf_hooks'
import type { MetricSnapshot } from '../metrics/registry.ts'
import { createLocks } from './locks.ts'
import {
  type Assignment,
  type Broadcast,
  type CollectedName,
  type ToSupervisor,
  type ToWorker,
  WORKER_VARIABLE,
} from './messages.ts'
import { createMetricHistory } from './metric-history.ts'
import { createRpc, type Rpc } from './rpc.ts'

/** The procedures for one worker besides broadcasts and locks, such as rates. `end` is called when the worker has ended. */
export type Services = {
  readonly procedures: Omit<
    ToSupervisor,
    'hello' | 'ready' | 'broadcast' | 'otherMetrics' | 'otherConditions' | 'enter' | 'leave'
  >
  end(): void
}

type SupervisorOptions = {
  readonly program: string
  readonly args: readonly string[]
  /** Settings of the workers, the port among them. */
  readonly env: Readonly<Record<string, string>>
  readonly assignments: readonly Assignment[]
  /** The time that a worker has to finish running requests when all are stopped. */
  readonly drainMs: number
  services(): Services
  onExit(slot: number, reason: string): void
}

/** A worker failed to start; the program ends with the same exit code. */
export class WorkerStartError extends Error {
  readonly exitCode: number
  constructor(slot: number, exitCode: number) {
    super(`worker ${slot} could not start`)
    this.name = 'WorkerStartError'
    this.exitCode = exitCode
  }
}

const PING_EVERY_MS = 1_000
const PING_TIMEOUT_MS = 20_000
const START_TIMEOUT_MS = 60_000
const LATE_TICK_MS = 3_000
const STABLE_MS = 10_000
const FIRST_BACKOFF_MS = 100
const MAX_BACKOFF_MS = 5_000
const STOP_GRACE_MS = 10_000
const COLLECT_TIMEOUT_MS = 2_000

type RunningWorker = {
  readonly worker: Worker
  readonly rpc: Rpc<ToWorker>
  readonly startedMs: number
  lastSeenMs: number
  isReady: boolean
}
type Slot = {
  readonly assignment: Assignment
  running: RunningWorker | undefined
  /** Resolves when the slot has a worker again. */
  occupied: PromiseWithResolvers<void>
  /** Consecutive exits soon after a start. */
  earlyExits: number
}

/**
 * Keeps a worker in every slot and forwards broadcasts between them. A worker that ended is replaced at once, and the new
 * one settles its journal at the start. A worker that does not respond to pings is killed first.
 */
export function startSupervisor(options: SupervisorOptions) {
  const { program, args, env, assignments, services, onExit, drainMs } = options
  cluster.setupPrimary({ exec: program, args: [...args] })
  const locks = createLocks()
  const history = createMetricHistory()
  const started = Promise.withResolvers<void>()
  const slots = assignments.map(
    (assignment): Slot => ({
      assignment,
      running: undefined,
      occupied: Promise.withResolvers(),
      earlyExits: 0,
    }),
  )
  let isDraining = false
  let isStopping = false
  let lastTickMs = performance.now()

  function startWorker(slot: Slot): void {
    const worker = cluster.fork({ ...env, [WORKER_VARIABLE]: '1' })
    const service = services()
    const rpc = createRpc<ToWorker, ToSupervisor>(
      {
        send: (message, onSent) => worker.send(message as object, undefined, onSent),
        onMessage: listener => worker.on('message', listener),
      },
      {
        hello: async () => slot.assignment,
        ready: async () => {
          running.isReady = true
          running.lastSeenMs = performance.now()
          if (isDraining) rpc.notify('drain', null)
          if (slots.every(each => each.running?.isReady)) started.resolve()
        },
        broadcast: call => broadcast(call, slot),
        otherMetrics: own => metricsOfOthers(slot, own),
        otherConditions: () => conditionsOfOthers(slot),
        enter: name => locks.enter(name, running),
        leave: name => locks.leave(name, running),
        ...service.procedures,
      },
    )
    const now = performance.now()
    const running: RunningWorker = { worker, rpc, startedMs: now, lastSeenMs: now, isReady: false }
    slot.running = running
    slot.occupied.resolve()
    // A worker that cannot receive messages has ended, and its exit is handled below.
    worker.on('error', () => {})
    worker.once('exit', (code, signal) => {
      rpc.fail()
      service.end()
      locks.releaseAll(running)
      slot.running = undefined
      slot.occupied = Promise.withResolvers()
      if (isStopping) return
      history.end(slot.assignment.slot)
      onExit(slot.assignment.slot, signal ?? `exit ${code}`)
      // During the first start, a failure of one worker is a failure of all.
      if (!running.isReady) started.reject(new WorkerStartError(slot.assignment.slot, code ?? 1))
      slot.earlyExits = performance.now() - running.startedMs < STABLE_MS ? slot.earlyExits + 1 : 0
      const wait =
        slot.earlyExits <= 1 ? 0 : Math.min(MAX_BACKOFF_MS, FIRST_BACKOFF_MS * 2 ** (slot.earlyExits - 2))
      setTimeout(() => (isStopping ? undefined : startWorker(slot)), wait)
    })
  }

  /** Resolves when a worker of the slot has completed the call. If the worker dies, its successor gets the call. */
  async function callSlot(slot: Slot, { name, input }: Broadcast): Promise<void> {
    while (!isStopping) {
      // The next worker starts with empty caches and reads the secret, so an empty slot needs neither.
      if (!slot.running && (name === 'invalidate' || name === 'reloadSecret')) return
      await slot.occupied.promise
      if (!slot.running) continue
      const callee = slot.running
      try {
        await callee.rpc.call(name, input as never)
        return
      } catch (error) {
        if (slot.running === callee) throw error
      }
    }
  }

  async function broadcast(call: Broadcast, except?: Slot): Promise<void> {
    await Promise.all(slots.filter(slot => slot !== except).map(slot => callSlot(slot, call)))
  }

  /** The results of the other workers; undefined for one that is ending or does not respond in time. */
  async function collect<Name extends CollectedName>(name: Name, except: Slot) {
    const late = Promise.withResolvers<never>()
    const timer = setTimeout(() => late.reject(new Error('late')), COLLECT_TIMEOUT_MS)
    const others = slots.flatMap(({ running, assignment }) =>
      assignment !== except.assignment && running?.isReady ? [{ ...running, slot: assignment.slot }] : [],
    )
    const results = await Promise.allSettled(
      others.map(({ rpc }) => Promise.race([rpc.call(name, null as never), late.promise])),
    )
    clearTimeout(timer)
    return results.map((result, at) => ({
      slot: others[at]?.slot ?? 0,
      value: result.status === 'fulfilled' ? result.value : undefined,
    }))
  }

  /** Of a worker that is ending or does not respond in time, the last known counters. */
  async function metricsOfOthers(except: Slot, own: readonly MetricSnapshot[]) {
    history.note(except.assignment.slot, own)
    const metrics = (await collect('metrics', except)).map(({ slot, value }) => {
      if (value === undefined) return history.lastOf(slot)
      history.note(slot, value)
      return value
    })
    return [...metrics, history.ofEnded()]
  }

  async function conditionsOfOthers(except: Slot) {
    return (await collect('conditions', except)).flatMap(({ value }) => (value ? [value] : []))
  }

  function watch(): void {
    const now = performance.now()
    // After a suspension of the whole machine, missing ping responses are no sign of a hang.
    const wasSuspended = now - lastTickMs > LATE_TICK_MS
    lastTickMs = now
    for (const { running } of slots) {
      if (!running) continue
      if (wasSuspended) running.lastSeenMs = now
      if (now - running.lastSeenMs > (running.isReady ? PING_TIMEOUT_MS : START_TIMEOUT_MS))
        running.worker.process.kill('SIGKILL')
      running.rpc.call('ping', null).then(
        () => {
          running.lastSeenMs = performance.now()
        },
        () => {}, // The worker has ended; its exit is handled above.
      )
    }
  }

  for (const slot of slots) startWorker(slot)
  const watching = setInterval(watch, PING_EVERY_MS)

  const exitOf = (worker: Worker) =>
    worker.isDead() ? Promise.resolve() : new Promise<void>(resolve => worker.once('exit', () => resolve()))

  return {
    /** Resolves when every worker listens. */
    ready: started.promise,
    broadcast,
    startDraining(): void {
      isDraining = true
      for (const { running } of slots) running?.rpc.notify('drain', null)
    },
    async stop(): Promise<void> {
      isStopping = true
      clearInterval(watching)
      const workers = slots.flatMap(({ running }) => running ?? [])
      const deadline = setTimeout(() => {
        for (const { worker } of workers) worker.process.kill('SIGKILL')
      }, drainMs + STOP_GRACE_MS)
      for (const { rpc } of workers) rpc.notify('stop', null)
      await Promise.all(workers.map(({ worker }) => exitOf(worker)))
      clearTimeout(deadline)
    },
  }
}
