import type { ChannelCondition } from '../domain/channel-condition.ts'
import type { MetricSnapshot } from '../metrics/registry.ts'
import type { Assignment, Broadcast, ServedName, ToSupervisor, ToWorker } from './messages.ts'
import { createRpc, type Rpc } from './rpc.ts'

/** The other workers on this machine, as a worker sees them. */
export type Peers = {
  readonly assignment: Assignment
  readonly isAlone: boolean
  /** Calls a procedure of every other worker, and resolves when all have completed it. */
  broadcast(call: Broadcast): Promise<void>
  /** The metrics of the other workers, and the counters of workers that have ended. */
  otherMetrics(own: readonly MetricSnapshot[]): Promise<readonly (readonly MetricSnapshot[])[]>
  /** The channels that are not ready, of every other worker that responds. */
  otherConditions(): Promise<readonly (readonly ChannelCondition[])[]>
  /** Runs work under a lock with this name that all workers share. */
  exclusively<T>(name: string, work: () => Promise<T>): Promise<T>
  /** Starts serving calls of the other workers. */
  serve(handlers: Pick<ToWorker, ServedName>): void
  /** Its supervisor, which counts rates and failed sign-ins for all workers; undefined in a single process. */
  readonly supervisor: Rpc<ToSupervisor> | undefined
}

/** A gateway of one process. */
export const alone = (assignment: Assignment): Peers => ({
  assignment,
  isAlone: true,
  broadcast: async () => {},
  otherMetrics: async () => [],
  otherConditions: async () => [],
  exclusively: (_name, work) => work(),
  serve: () => {},
  supervisor: undefined,
})

type StopListeners = {
  /** Called when the drain delay starts. */
  onDrain(): void
  /** Called once, when the supervisor stops all workers. */
  onStop(): void
}

/** Connects to the supervisor that started this process. */
export async function joinSupervisor({
  onDrain,
  onStop,
}: StopListeners): Promise<Peers & { ready(): Promise<void> }> {
  const handlers = Promise.withResolvers<Pick<ToWorker, ServedName>>()
  // Broadcasts that arrive during the start are queued until it is complete, because they may concern data already read.
  const rpc = createRpc<ToSupervisor, ToWorker>(
    {
      send: (message, onSent) => process.send?.(message, undefined, undefined, onSent),
      onMessage: listener => process.on('message', listener),
    },
    {
      invalidate: async targets => (await handlers.promise).invalidate(targets),
      apply: async () => (await handlers.promise).apply(null),
      flushAndReturn: async account => (await handlers.promise).flushAndReturn(account),
      returnIdle: async accounts => (await handlers.promise).returnIdle(accounts),
      reloadSecret: async () => (await handlers.promise).reloadSecret(null),
      health: async events => (await handlers.promise).health(events),
      reportHealth: async () => (await handlers.promise).reportHealth(null),
      metrics: async () => (await handlers.promise).metrics(null),
      conditions: async () => (await handlers.promise).conditions(null),
      ping: async () => {},
      drain: async () => onDrain(),
      stop: async () => onStop(),
    },
  )
  const assignment = await rpc.call('hello', null)
  return {
    assignment,
    isAlone: false,
    broadcast: call => rpc.call('broadcast', call),
    otherMetrics: own => rpc.call('otherMetrics', own),
    otherConditions: () => rpc.call('otherConditions', null),
    async exclusively(name, work) {
      await rpc.call('enter', name)
      try {
        return await work()
      } finally {
        rpc.notify('leave', name)
      }
    },
    serve: procedures => handlers.resolve(procedures),
    supervisor: rpc,
    ready: () => rpc.call('ready', null),
  }
}
