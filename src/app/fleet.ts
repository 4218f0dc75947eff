import { hostname } from 'node:os'
import { performance } from 'node:perf_hooks'
import type { Logger } from 'pino'
import { ALL_CONFIRMED, type Confirmation } from '../domain/node.ts'
import { type CallNotice, createFleetCalls } from '../fleet/calls.ts'
import { createChangeFeed } from '../fleet/change-feed.ts'
import { createConfirmations } from '../fleet/confirmations.ts'
import type { FleetClock, FleetStore, NodeRecord } from '../fleet/fleet.ts'
import { createFleetLocks } from '../fleet/locks.ts'
import { createMembership } from '../fleet/membership.ts'
import { createObservations } from '../fleet/observations.ts'
import { version } from '../host/version.ts'
import { RetiredNodeError } from '../store/books/books.ts'
import { chainKeyOf } from '../store/books/chain-key.ts'
import { type Listener, openListener } from '../store/engine/listener.ts'
import type { Store } from '../store/engine/store.ts'
import {
  acknowledgePosition,
  changesAfter,
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
  exclusively<T>(name: string, work: () => Promise<T>): Promise<T>
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
}

/** Notifications: a change was made on a machine, a node has applied the changes up to a position, or a call. */
type Notice = { readonly changed: string } | { readonly node: string; readonly applied: number } | CallNotice

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

function identityOf(config: Config, { assignment, isAlone }: Peers): NodeIdentity {
  const { nodeId, machine, slot } = assignment
  return {
    nodeId,
    machine,
    name: isAlone ? hostname() : `${hostname()}/${slot}`,
    address: `${config.host}:${config.port}`,
    version,
    fenceMs: config.fenceS * 1_000,
  }
}

/**
 * Joins the fleet, before anything is read into a cache: changes that are made later wait for this node. An embedded store has
 * the nodes of one machine only, which talk through their supervisor.
 */
export async function joinNodes({ config, log, store, peers }: FleetDeps): Promise<Fleet> {
  const identity = identityOf(config, peers)
  const { nodeId } = identity
  const position = await joinFleet(store.db, store.engine, identity)
  if (position === undefined) throw new RetiredNodeError(nodeId)
  const fleet = config.databaseUrl === undefined ? alone() : connect(config.databaseUrl, position)
  return {
    ...fleet,
    setAddress: address => setNodeAddress(store.db, nodeId, address),
    async close(): Promise<void> {
      await fleet.close()
      await leaveFleet(store.db, nodeId, identity.machine)
    },
  }

  function connect(url: string, joinedAt: number): Omit<Fleet, 'setAddress'> {
    const listener = openListener(url, chainKeyOf(store.db))
    const payloadOf = (notice: Notice) => listener.sign(JSON.stringify(notice))
    const fleetStore: FleetStore = {
      beat: beat => writeBeat(listener.db, identity, beat),
      wake: () => wakeOtherMachines(listener.db, identity.machine, payloadOf({ changed: identity.machine })),
      acknowledge: applied =>
        acknowledgePosition(listener.db, nodeId, applied, payloadOf({ node: nodeId, applied })),
      changesAfter: (after, limit) => changesAfter(listener.db, after, limit),
    }
    const logFailure = createFailureLog(log, Date.now)
    const onFailure = (error: Error) =>
      logFailure(error, 'The heartbeat of this node could not be renewed. Retrying.')
    let services: Pick<FleetServices, 'invalidate' | 'inFlight' | 'drain'> = {
      invalidate: async () => {},
      inFlight: () => 0,
      drain: () => {},
    }
    const observations = createObservations(fleetClock)
    const feed = createChangeFeed({
      store: fleetStore,
      invalidate: targets => services.invalidate(targets),
    })
    feed.start(joinedAt)
    const confirmations = createConfirmations({ store: fleetStore, clock: fleetClock, observations })
    const calls = createFleetCalls({
      nodeId,
      machine: identity.machine,
      clock: fleetClock,
      observations,
      sendToOthers: notice => wakeOtherMachines(listener.db, identity.machine, payloadOf(notice)),
      send: notice => listener.notify(JSON.stringify(notice)),
      onFailure: error => logFailure(error, 'A call of another machine could not be executed.', 'warn'),
    })
    const locks = createFleetLocks({
      clock: fleetClock,
      random: Math.random,
      tryLock: name => tryFleetLock(listener.db, name),
      unlock: name => releaseFleetLock(listener.db, name),
    })
    const membership = createMembership({
      fenceMs: identity.fenceMs,
      store: fleetStore,
      clock: fleetClock,
      feed,
      observations,
      inFlight: () => services.inFlight(),
      onSnapshot(snapshot) {
        confirmations.take(snapshot)
        const own = snapshot.nodes.find(node => node.nodeId === nodeId)
        if (own?.state === 'draining') services.drain()
      },
      onExpelled: () =>
        log.error({ node: nodeId }, 'This node is retired, or another gateway runs it. It refuses requests.'),
      onRewind() {
        log.error(
          'The database has lost changes that this node knows. Everything is read again; run "sluice verify".',
        )
        services.invalidate(['all']).catch(onFailure)
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
      onFailure,
    })

    /** Another machine waits for the acknowledgement of its change. */
    async function applyAndAcknowledge(): Promise<void> {
      await membership.beat()
      await feed.acknowledge()
    }

    let isApplying = false
    let hasNewChange = false
    /** Notices that arrive meanwhile cause one more run. */
    async function applyChanges(): Promise<void> {
      hasNewChange = true
      if (isApplying) return
      isApplying = true
      try {
        while (hasNewChange) {
          hasNewChange = false
          await applyAndAcknowledge()
        }
      } catch (error) {
        onFailure(error as Error)
      } finally {
        isApplying = false
      }
    }

    function receive(message: string): void {
      const notice = JSON.parse(message) as Notice
      if ('node' in notice) confirmations.acknowledge(notice.node, notice.applied)
      if ('call' in notice || 'response' in notice) calls.receive(notice)
      if ('changed' in notice && notice.changed !== identity.machine) void applyChanges()
    }

    return {
      listener,
      hasOthers: () => hasOtherMachines(store.db, identity.machine),
      callOthers: calls.callOthers,
      exclusively: locks.exclusively,
      isFenced: membership.isFenced,
      confirm: confirmations.confirm,
      noteApplied: feed.note,
      others: () => membership.nodes().filter(({ machine }) => machine !== identity.machine),
      start(newServices) {
        services = newServices
        const { apply, flushAndReturn, returnIdle, health, reportHealth } = newServices
        calls.serve({ apply, flushAndReturn, returnIdle, health, reportHealth })
        listener.subscribe(receive)
        membership.start()
      },
      async close() {
        await membership.close()
        await listener.close()
      },
    }
  }
}

const alone = (): Omit<Fleet, 'setAddress'> => ({
  listener: undefined,
  hasOthers: async () => false,
  callOthers: async () => [],
  exclusively: (_name, work) => work(),
  isFenced: () => false,
  confirm: async () => ALL_CONFIRMED,
  noteApplied: () => {},
  others: () => [],
  start: () => {},
  close: async () => {},
})
