import type { Assignment, Broadcast, Shared, ToSupervisor, ToWorker } from './messages.ts'
import { createRpc, type Rpc } from './rpc.ts'

/** The other workers on this machine, as a worker sees them. */
export type Peers = {
  readonly assignment: Assignment
  readonly isAlone: boolean
  /** Done when every other worker has done it. */
  broadcast(broadcast: Broadcast): Promise<void>
  /** One worker at a time, for one name. */
  exclusively<T>(name: string, work: () => Promise<T>): Promise<T>
  /** From here on this worker does what others ask. */
  serve(words: Pick<ToWorker, Shared>): void
  /** Its supervisor, for what is counted in one place; undefined when there is none. */
  readonly supervisor: Rpc<ToSupervisor> | undefined
}

/** A gateway of one process. */
export const alone = (assignment: Assignment): Peers => ({
  assignment,
  isAlone: true,
  broadcast: async () => {},
  exclusively: (_name, work) => work(),
  serve: () => {},
  supervisor: undefined,
})

/** Joins the supervisor that started this process. `onStop` is called once, when all are to stop. */
export async function joinSupervisor(onStop: () => void): Promise<Peers & { ready(): Promise<void> }> {
  const served = Promise.withResolvers<Pick<ToWorker, Shared>>()
  // What comes while this worker still starts is done when it has started: it may have read what has changed since.
  const post = createRpc<ToSupervisor, ToWorker>(
    {
      send: (message, sent) => process.send?.(message, undefined, undefined, sent),
      onMessage: listener => process.on('message', listener),
    },
    {
      news: async targets => (await served.promise).news(targets),
      apply: async () => (await served.promise).apply(null),
      flushAndReturn: async account => (await served.promise).flushAndReturn(account),
      returnIdle: async accounts => (await served.promise).returnIdle(accounts),
      ping: async () => {},
      stop: async () => onStop(),
    },
  )
  const assignment = await post.ask('hello', null)
  return {
    assignment,
    isAlone: false,
    broadcast: broadcast => post.ask('others', broadcast),
    async exclusively(name, work) {
      await post.ask('enter', name)
      try {
        return await work()
      } finally {
        post.tell('leave', name)
      }
    },
    serve: words => served.resolve(words),
    supervisor: post,
    ready: () => post.ask('ready', null),
  }
}
