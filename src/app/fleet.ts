import { hostname } from 'node:os'
import { performance } from 'node:perf_hooks'
import type { Logger } from 'pino'
import { ALL_CONFIRMED, type Confirmation } from '../domain/node.ts'
import type { FleetClock, NodeRecord } from '../fleet/fleet.ts'
import { createFleetNode, type FleetNodeStore, type FleetNotice } from '../fleet/fleet-node.ts'
import type { FleetLock } from '../fleet/locks.ts'
import { version } from '../host/version.ts'
import type { Keyring } from '../identity/keyring.ts'
import { RetiredNodeError } from '../store/books/books.ts'
import { chainKeyOf } from '../store/books/chain-key.ts'
import { type Listener, openListener } from '../store/engine/listener.ts'
import type { Engine } from '../store/engine/schema.ts'
import type { Db, Store } from '../store/engine/store.ts'
import {
  acknowledgePosition,
  changesAfter,
  findNode,
  hasOtherMachines,
  joinFleet,
  leaveFleet,
  type NodeIdentity,
  releaseFleetLock,
  setNodeAddress,
  tryFleetLock,
  wakeOtherMachines,
  writeBeat,
} from '../store/records/nodes.ts'
import type { ToWorker } from '../workers/messages.ts'
import type { Peers } from '../workers/peers.ts'
import type { Config } from './config.ts'
import { createFailureLog } from './failure-log.ts'

/** What this node does for the other machines, once its caches exist. */
type FleetServices = Pick<ToWorker, FleetCallName> & {
  invalidate(targets: readonly string[]): Promise<void>
  inFlight(): number
  /** An operator stops the gateway of this node. */
  drain(): void
}

/** The procedures of a worker that nodes of other machines call too. */
type FleetCallName = 'apply' | 'flushAndReturn' | 'returnIdle' | 'health' | 'reportHealth'

/** This node among those of other machines that share the database. */
export type Fleet = {
  isFenced(): boolean
  /** Waits until the nodes of other machines have applied all changes so far, at most this long. */
  confirm(withinMs: number): Promise<Confirmation>
  /** The caches of this machine reflect these changes already. */
  noteApplied(positions: readonly number[]): void
  /** Whether there are nodes of other machines. */
  hasOthers(): Promise<boolean>
  /** Calls a procedure of all nodes of other machines. Resolves to the nodes that have not completed it in time. */
  callOthers<Name extends FleetCallName>(
    name: Name,
    input: Parameters<ToWorker[Name]>[0],
    withinMs: number,
  ): Promise<readonly NodeRecord[]>
  /** Runs work under a lock that all machines share. */
  exclusively<T>(name: string, work: (lock: FleetLock) => Promise<T>): Promise<T>
  /** Messages between machines; undefined with an embedded store. */
  readonly listener: Listener | undefined
  /** The nodes of other machines. */
  others(): readonly NodeRecord[]
  start(services: FleetServices): void
  setAddress(address: string): Promise<void>
  close(): Promise<void>
}

type FleetDeps = {
  readonly config: Config
  readonly log: Logger
  readonly store: Store
  readonly peers: Peers
  /** Counts the starts of this node. */
  readonly epoch: number
  readonly keyring: Keyring
}

export const fleetClock: FleetClock = {
  monotonicMs: () => performance.now(),
  wallMs: Date.now,
  wait: (ms, signal) =>
    new Promise(resolve => {
      if (signal?.aborted) return resolve()
      const end = () => {
        clearTimeout(timer)
        signal?.removeEventListener('abort', end)
        resolve()
      }
      const timer = setTimeout(end, ms)
      timer.unref()
      signal?.addEventListener('abort', end)
    }),
}

function identityOf({ config, peers, epoch, keyring }: FleetDeps): NodeIdentity {
  const { assignment, isAlone } = peers
  const { nodeId, machine, slot } = assignment
  return {
    nodeId,
    machine,
    name: isAlone ? hostname() : `${hostname()}/${slot}`,
    address: `${config.host}:${config.port}`,
    version,
    fenceMs: config.fenceS * 1_000,
    epoch,
    secretIds: keyring.secretIds(),
  }
}

async function joinError(db: Db, engine: Engine, nodeId: string): Promise<Error> {
  const node = await findNode(db, engine, nodeId)
  return node?.state === 'retired'
    ? new RetiredNodeError(nodeId)
    : new Error(`The node ${nodeId} was started by another gateway meanwhile.`)
}

/**
 * Joins the fleet, before anything is read into a cache: changes that are made later wait for this node. An embedded store has
 * the nodes of one machine only, which talk through their supervisor.
 */
export async function joinNodes(deps: FleetDeps): Promise<Fleet> {
  const { config, log, store } = deps
  const { db, engine } = store
  const identity = identityOf(deps)
  const { nodeId } = identity
  let { address } = identity
  const position = await joinFleet(db, engine, identity)
  if (position === undefined) throw await joinError(db, engine, nodeId)
  const fleet = config.databaseUrl === undefined ? alone() : connect(config.databaseUrl, position)
  return {
    ...fleet,
    setAddress(newAddress) {
      address = newAddress
      return setNodeAddress(db, nodeId, address)
    },
    async close(): Promise<void> {
      await fleet.close()
      await leaveFleet(db, nodeId, identity.machine)
    },
  }

  function connect(url: string, joinedAt: number): Omit<Fleet, 'setAddress'> {
    const listener = openListener(url, { key: chainKeyOf(db), onTimeline: store.noteTimeline })
    const payloadOf = (notice: FleetNotice) => listener.sign(JSON.stringify(notice))
    const nodeStore: FleetNodeStore = {
      beat: beat => writeBeat(listener.db, identity, beat),
      join: () => joinFleet(listener.db, engine, { ...identity, address }),
      notifyOthers: notice => wakeOtherMachines(listener.db, identity.machine, payloadOf(notice)),
      acknowledge: (applied, notice) => acknowledgePosition(listener.db, nodeId, applied, payloadOf(notice)),
      notify: notice => listener.notify(JSON.stringify(notice)),
      changesAfter: (after, limit) => changesAfter(listener.db, after, limit),
      tryLock: name => tryFleetLock(listener.db, name),
      unlock: name => releaseFleetLock(listener.db, name),
      connection: listener.connection,
    }
    const logFailure = createFailureLog(log, Date.now)
    const onBeatFailure = (error: Error) =>
      logFailure(error, 'The heartbeat of this node could not be renewed. Retrying.')
    let services: Pick<FleetServices, 'invalidate' | 'inFlight' | 'drain'> = {
      invalidate: async () => {},
      inFlight: () => 0,
      drain: () => {},
    }
    const node = createFleetNode({
      nodeId,
      machine: identity.machine,
      fenceMs: identity.fenceMs,
      joinedAt,
      store: nodeStore,
      clock: fleetClock,
      random: Math.random,
      invalidate: targets => services.invalidate(targets),
      inFlight: () => services.inFlight(),
      onDrain: () => services.drain(),
      onExpelled: () =>
        log.error({ node: nodeId }, 'This node is retired, or another gateway runs it. It refuses requests.'),
      onJoinedAgain: () =>
        log.warn(
          { node: nodeId },
          'The database had lost the registration of this node. The node has registered again.',
        ),
      onRewind() {
        log.warn(
          'The database was replaced, or has lost changes that this node knows. Everything is read again.',
        )
        return services.invalidate(['all'])
      },
      onFenceChange: isFenced =>
        isFenced
          ? log.error(
              { node: nodeId },
              'This node had no contact with the database for too long. It refuses requests.',
            )
          : log.warn(
              { node: nodeId },
              'This node has caught up with all changes and accepts requests again.',
            ),
      onBeatFailure,
      onCallFailure: error => logFailure(error, 'A call of another machine could not be executed.', 'warn'),
    })
    store.onFailover(node.noteFailover)
    return {
      ...node,
      listener,
      hasOthers: () => hasOtherMachines(db, identity.machine),
      start(newServices) {
        services = newServices
        const { apply, flushAndReturn, returnIdle, health, reportHealth } = newServices
        listener.subscribe(payload => node.receive(JSON.parse(payload) as FleetNotice))
        node.start({ apply, flushAndReturn, returnIdle, health, reportHealth })
      },
      async close() {
        await node.close()
        await listener.close()
      },
    }
  }
}

const alone = (): Omit<Fleet, 'setAddress'> => ({
  listener: undefined,
  hasOthers: async () => false,
  callOthers: async () => [],
  exclusively: (_name, work) => work({ mustStillHold: () => {} }),
  isFenced: () => false,
  confirm: async () => ALL_CONFIRMED,
  noteApplied: () => {},
  others: () => [],
  start: () => {},
  close: async () => {},
})
