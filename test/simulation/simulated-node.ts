import { createHealthShare } from '../../src/app/health-share.ts'
import { createIdleReturns } from '../../src/app/idle-returns.ts'
import { createJobLease, type LeaseStore } from '../../src/app/job-lease.ts'
import type { AccountId } from '../../src/domain/account.ts'
import type { HealthEvent } from '../../src/domain/channel-condition.ts'
import type { FleetClock } from '../../src/fleet/fleet.ts'
import { createFleetNode, type FleetNodeStore, type FleetNotice } from '../../src/fleet/fleet-node.ts'
import type { Timers } from '../../src/host/timers.ts'
import type { Books } from '../../src/ledger/books.ts'
import { createJournal } from '../../src/ledger/journal.ts'
import { openLedger } from '../../src/ledger/ledger.ts'
import { createReadBarrier } from '../../src/ledger/read-barrier.ts'
import { createFleetRates, type FleetRatesDeps, type ShareNotice } from '../../src/routing/fleet-rates.ts'
import { createRates } from '../../src/routing/rates.ts'
import { JOURNAL, type SimulatedDisk } from './simulated-disk.ts'
import type { SimulatedLocks } from './simulated-locks.ts'
import type { SimulatedNetwork } from './simulated-network.ts'
import { nameOf, type SimulatedStore } from './simulated-store.ts'
import type { VirtualTime } from './virtual-time.ts'

export const FENCE_MS = 8_000
const CALL_TIMEOUT_MS = 1_000
const OUTAGE_MS = 10_000
const SWEEP_RATES_EVERY_MS = 10_000

/** What a node gets passed in. A planted bug wraps one of them. */
export type NodeParts = {
  readonly books: Books
  readonly fleetStore: FleetNodeStore
  readonly jobLeaseStore: LeaseStore
  readonly rateStore: FleetRatesDeps['store']
  readonly clock: FleetClock
  /** The clock of rate limits. */
  readonly rateClockMs: () => number
  /** Whether other nodes have brought the store up to date. */
  readonly othersCaughtUp: (missing: readonly unknown[]) => boolean
  /** Whether other nodes have received what was sent to them. */
  readonly haveReceived: (missing: readonly unknown[]) => boolean
  readonly hasOthers: () => Promise<boolean>
  readonly isFenced: (isFenced: boolean) => boolean
}

/** One process of a node. A killed one is not alive any more, and none of its code runs. */
export type Life = { readonly id: string; readonly start: number; isAlive: boolean; session: number }

export type World = {
  readonly time: VirtualTime
  random(): number
  readonly store: SimulatedStore
  readonly network: SimulatedNetwork
  readonly locks: SimulatedLocks
  /** Counts the failovers of the store. */
  timeline(): number
  /** How far the system clock of a machine is ahead. */
  wallOffsetMs(id: string): number
  /** The planted bug. */
  wrap(parts: NodeParts, world: World, id: string): NodeParts
}

/** The process of a gateway: the code of the product, with a simulated clock, disk, store and network. */
export async function startNode(world: World, disk: SimulatedDisk, life: Life) {
  const { time, store, network, locks } = world
  const { id } = life
  const machine = `${id}#${life.start}`
  const self = { id, isAlive: () => life.isAlive }
  const onFailure = () => {}

  const after: Timers['after'] = (ms, run) => time.after(ms, () => life.isAlive && run())
  const timers: Timers = {
    after,
    every(ms, run) {
      let cancel = after(ms, tick)
      function tick(): void {
        cancel = after(ms, tick)
        run()
      }
      return () => cancel()
    },
    endOfTurn: run => void after(0, run),
  }
  const startedMs = time.nowMs()
  const plainClock: FleetClock = {
    monotonicMs: () => time.nowMs() - startedMs + 1_000,
    wallMs: () => time.nowMs() + 1_000_000 + world.wallOffsetMs(id),
    async wait(ms, signal) {
      await time.wait(ms, signal)
      if (!life.isAlive) await new Promise(() => {})
    },
  }

  let knownTimeline = world.timeline()
  const failoverListeners: (() => void)[] = []
  /** A new connection reads the timeline before anything else. */
  function onAnswer(): void {
    if (knownTimeline === world.timeline()) return
    knownTimeline = world.timeline()
    for (const notify of failoverListeners) notify()
  }
  const transaction = <T>(name: string, execute: () => T) =>
    network.statement(self, { name, execute, onAnswer })
  const single = <T>(name: string, execute: () => T) =>
    network.statement(self, { name, execute, onAnswer, isSingle: true })
  life.session = locks.openSession()
  /** The connection for notifications and locks. */
  async function listener<T>(name: string, execute: () => T): Promise<T> {
    try {
      return await network.statement(self, { name, execute, isSingle: true, onAnswer })
    } catch (error) {
      locks.breakSession(life.session)
      life.session = locks.openSession()
      throw error
    }
  }

  const stored = store.books
  const books: Books = {
    openNode: (nodeId, previousEpoch) =>
      transaction('open node', () => stored.openNode(nodeId, previousEpoch)),
    reopenNode: (nodeId, epoch) => transaction('reopen node', () => stored.reopenNode(nodeId, epoch)),
    findAccount: account => single('find account', () => stored.findAccount(account)),
    lease: (nodeId, account, want, number) =>
      single('lease', () => stored.lease(nodeId, account, want, number)),
    returnLease: (nodeId, account, amount, number) =>
      transaction('return lease', () => stored.returnLease(nodeId, account, amount, number)),
    setLease: (nodeId, account, amount, number) =>
      transaction('set lease', () => stored.setLease(nodeId, account, amount, number)),
    returnAllLeases: nodeId => transaction('return all leases', () => stored.returnAllLeases(nodeId)),
    leasesOf: nodeId => single('read leases', () => stored.leasesOf(nodeId)),
    settledAmong: requestIds => single('read settled', () => stored.settledAmong(requestIds)),
    apply: (nodeId, batch) => transaction('apply', () => stored.apply(nodeId, batch)),
  }
  /** Known when the ledger is open. */
  let epoch = 0
  const joinFleet = () => store.fleet.join({ nodeId: id, machine, fenceMs: FENCE_MS, epoch })
  const fleetStore: FleetNodeStore = {
    join: () => listener('join again', joinFleet),
    beat: beat => listener('beat', () => store.fleet.beat(id, machine, beat)),
    changesAfter: (position, limit) =>
      listener('read changes', () => store.fleet.changesAfter(position, limit)),
    notifyOthers: notice =>
      listener('notify others', () => {
        network.send(notice)
        return store.fleet.others(machine)
      }),
    acknowledge: (applied, notice) =>
      listener('acknowledge', () => {
        store.fleet.acknowledge(id, applied)
        network.send(notice)
      }),
    notify: notice => listener('notify', () => network.send(notice)),
    tryLock: name => {
      const owner = life.session
      return listener('lock', () => locks.tryLock(owner, name))
    },
    connection: () => life.session,
    unlock: name => {
      const owner = life.session
      return listener('unlock', () => locks.unlock(owner, name))
    },
  }
  const jobLeaseStore: LeaseStore = {
    read: () => single('read job lease', () => store.jobLease.read()),
    replace: (previous, next) => single('replace job lease', () => store.jobLease.replace(previous, next)),
    release: holder => single('release job lease', () => store.jobLease.release(holder)),
  }
  const rateStore: FleetRatesDeps['store'] = {
    read: subject => single('read rate shares', () => store.rateShares.read(subject)),
    replace: (subject, version, shares) =>
      single('replace rate shares', () => store.rateShares.replace(subject, version, shares)),
  }
  const parts = world.wrap(
    {
      books,
      fleetStore,
      jobLeaseStore,
      rateStore,
      clock: plainClock,
      rateClockMs: plainClock.monotonicMs,
      othersCaughtUp: missing => missing.length === 0,
      haveReceived: missing => missing.length === 0,
      hasOthers: () => single('read others', () => store.fleet.others(machine).nodes.length > 0),
      isFenced: isFenced => isFenced,
    },
    world,
    id,
  )
  const { clock } = parts

  const journal = createJournal({
    dir: JOURNAL,
    fullSync: true,
    files: disk.files,
    segmentRecords: 60,
    nowMs: clock.wallMs,
    timers,
    onReserveReleased: onFailure,
    onSyncFailure: () => {},
  })
  const returnIdleOnOtherMachines = createIdleReturns({
    callOthers: (name, accounts, withinMs) => fleet.callOthers(name, accounts, withinMs),
    leaseStates: (nodeIds, accounts) =>
      single('read leases of missing nodes', () => store.fleet.leaseStates(nodeIds, accounts)),
    monotonicMs: () => clock.monotonicMs(),
  })
  const ledger = await openLedger({
    nodeId: id,
    journal,
    books: parts.books,
    otherNodes: {
      isEmpty: async () => !(await parts.hasOthers()),
      returnIdle: returnIdleOnOtherMachines,
      exclusively: (userId, work) => fleet.exclusively(`user:${userId}`, work),
    },
    outageMs: OUTAGE_MS,
    nowMs: clock.wallMs,
    monotonicMs: clock.monotonicMs,
    timers,
    onFailure,
    onFailover: listener => void failoverListeners.push(listener),
    onHealed({ isBehind }) {
      if (isBehind) void invalidate(['all']).catch(onFailure)
    },
  })

  /** What the caches have: the number of the last change of each target. */
  const cached = new Map<string, number>()
  const readTargets = (targets: readonly string[]) =>
    single('read caches', () => {
      for (const { target, serial } of store.state().changes)
        if (targets.includes('all') || targets.includes(target)) cached.set(target, serial)
    })
  async function invalidate(targets: readonly string[]): Promise<void> {
    await readTargets(targets)
    if (targets.includes('all')) await ledger.refreshAll()
    for (const target of targets) {
      const [kind, ownerId] = target.split(':')
      if (kind === 'user' || kind === 'token')
        await ledger.refresh({ kind, ownerId: Number(ownerId) } as AccountId)
    }
  }

  epoch = ledger.epoch
  const joinedAt = await single('join', joinFleet)
  if (joinedAt === undefined) throw new Error(`the node ${id} was retired`)
  const fleet = createFleetNode({
    nodeId: id,
    machine,
    fenceMs: FENCE_MS,
    joinedAt,
    store: parts.fleetStore,
    clock,
    random: world.random,
    invalidate,
    inFlight: () => 0,
    onDrain: () => {},
    onExpelled: () => {},
    onJoinedAgain: () => {},
    onRewind: () => invalidate(['all']),
    onFenceChange: () => {},
    onBeatFailure: onFailure,
    onCallFailure: onFailure,
  })
  failoverListeners.push(fleet.noteFailover)
  await readTargets(['all'])

  const rates = createFleetRates({
    own: createRates({ nowMs: parts.rateClockMs }),
    machine,
    store: parts.rateStore,
    send: notice => listener('notify', () => network.send(notice)),
    nowMs: parts.rateClockMs,
    wait: clock.wait,
    onFailure,
  })
  timers.every(SWEEP_RATES_EVERY_MS, () => void rates.sweep().catch(onFailure))

  /** The channels that cool down, as this node knows. */
  const cooldowns = new Map<number, HealthEvent>()
  const healthShare = createHealthShare({
    send: async events => parts.haveReceived(await fleet.callOthers('health', events, CALL_TIMEOUT_MS)),
    monotonicMs: clock.monotonicMs,
    onFailure,
    timers,
  })
  const barrier = createReadBarrier({
    ledger,
    others: {
      flushAndReturn: async account =>
        parts.othersCaughtUp(await fleet.callOthers('flushAndReturn', account, CALL_TIMEOUT_MS)),
      barrier: async () => parts.othersCaughtUp(await fleet.callOthers('apply', null, CALL_TIMEOUT_MS)),
    },
    timers,
  })
  const jobLease = createJobLease({
    store: parts.jobLeaseStore,
    holder: id,
    now: () => Math.floor(clock.wallMs() / 1_000),
    monotonicMs: clock.monotonicMs,
    timers,
    onFailure,
  })

  const receiver = {
    ...self,
    receive(message: unknown): void {
      // After a failover, messages arrive through a new connection only.
      onAnswer()
      const notice = message as Partial<FleetNotice & ShareNotice>
      if ('recall' in notice || 'returned' in notice) rates.receive(notice as ShareNotice)
      else fleet.receive(notice as FleetNotice)
    },
  }
  network.connect(receiver)
  fleet.start({
    apply: ledger.barrier,
    flushAndReturn: ledger.flushAndReturn,
    returnIdle: ledger.returnIdle,
    health: async (events: readonly HealthEvent[]) => {
      for (const event of events) cooldowns.set(event.channelId, event)
    },
    reportHealth: async () => {
      for (const event of cooldowns.values()) healthShare.share(event)
    },
  })
  void fleet.callOthers('reportHealth', null, CALL_TIMEOUT_MS).catch(onFailure)

  return {
    id,
    machine,
    startedMs,
    ledger,
    rates,
    /** Waits as the process would: not beyond its death. */
    wait: clock.wait,
    isAlive: self.isAlive,
    isFenced: () => parts.isFenced(fleet.isFenced()),
    runsJobs: jobLease.isHeld,
    cachedChange: (target: string) => cached.get(target) ?? 0,
    knowsCooldown: (channelId: number) => cooldowns.has(channelId),
    reportCooldown(event: HealthEvent): void {
      cooldowns.set(event.channelId, event)
      healthShare.share(event)
    },
    /** A balance as the management API reads it. */
    async readBalance(account: AccountId) {
      const isCurrent = await barrier.catchUp(account)
      const posted = await single(
        'read balance',
        () => store.state().accounts.get(nameOf(account))?.posted ?? 0,
      )
      return { isCurrent, posted }
    },
    /** A change through the management API. Resolves to its number when all other nodes have confirmed it, else to undefined. */
    async change(target: string, nextSerial: () => number): Promise<number | undefined> {
      const { position, serial } = await transaction('change', () => {
        const serial = nextSerial()
        return { serial, position: store.state().changes.push({ target, serial }) }
      })
      fleet.noteApplied([position])
      await invalidate([target])
      const { waiting } = await fleet.confirm(25_000)
      return waiting.length === 0 ? serial : undefined
    },
    /** Stops as after SIGTERM. */
    async close(): Promise<void> {
      await ledger.close()
      await jobLease.close()
      await rates.close().catch(onFailure)
      await fleet.close()
      await single('leave', () => store.fleet.leave(id, machine))
      healthShare.close()
      life.isAlive = false
      network.disconnect(receiver)
    },
  }
}

export type SimulatedNode = Awaited<ReturnType<typeof startNode>>
