import type { AccountId } from '../../src/domain/account.ts'
import { Refusal } from '../../src/domain/errors.ts'
import { FENCE_MARGIN_MS } from '../../src/domain/node.ts'
import type { Hold } from '../../src/ledger/ledger.ts'
import type { Subject } from '../../src/routing/rates.ts'
import { createRandom } from '../support/request-bytes.ts'
import { USAGE } from '../support/usage.ts'
import { createInvariants } from './invariants.ts'
import { createSimulatedDisk, type SimulatedDisk } from './simulated-disk.ts'
import { createSimulatedLocks } from './simulated-locks.ts'
import { createSimulatedNetwork, type FaultRates, NO_FAULTS } from './simulated-network.ts'
import {
  FENCE_MS,
  type Life,
  type NodeParts,
  type SimulatedNode,
  startNode,
  type World,
} from './simulated-node.ts'
import { createSimulatedStore, type StoreState } from './simulated-store.ts'
import { createVirtualTime } from './virtual-time.ts'

/** A bug of the protocol: it wraps what a node gets passed in, or changes its disk before it restarts. */
export type PlantedBug = {
  wrap?(parts: NodeParts, world: World, id: string): NodeParts
  onRestart?(disk: SimulatedDisk): void
}

const NODES = ['a', 'b', 'c']
/** It starts in some seeds only. */
const NEW_NODE = 'e'
const RPM = 15
const WINDOW_MS = 59_000
const QUIET_MS = 9_000
const STOP_WITHIN_MS = 20_000
const UPHEAVALS = /^(kill|partition|failover)/
const KNOWN_WITHIN_MS = 1_000
const KNOWN_LATE_MS = 12_000

type Payer = { readonly userId: number; readonly tokenId: number; readonly subject?: Subject }
const LIMITED: Subject = { kind: 'token', id: 3, limits: { rpm: RPM, tpm: null, concurrency: null } }
const PAYERS: readonly Payer[] = [
  { userId: 1, tokenId: 1 },
  { userId: 2, tokenId: 2 },
  { userId: 2, tokenId: 3, subject: LIMITED },
]
const TARGETS = ['user:1', 'user:2', 'token:2', 'setting:x']
const accountsOf = ({ userId, tokenId }: Payer): readonly AccountId[] => [
  { kind: 'user', ownerId: userId },
  { kind: 'token', ownerId: tokenId },
]
const ACCOUNTS: readonly AccountId[] = [
  { kind: 'user', ownerId: 1 },
  { kind: 'user', ownerId: 2 },
  { kind: 'token', ownerId: 1 },
  { kind: 'token', ownerId: 2 },
  { kind: 'token', ownerId: 3 },
]

type Answer = { readonly rid: string; readonly nodeId: string; readonly paid: number; readonly payer: Payer }

const EXTENDED_SHARE = 0.04

/** Runs a fleet with the faults of a seed. The same seed gives the same run. */
export async function simulate(seed: number, bug: PlantedBug = {}) {
  const random = createRandom(seed * 7_919)
  /** Of its own, so that the other faults of a seed do not depend on it. */
  const streamRandom = createRandom(seed * 104_729 + 1)
  const below = (limit: number) => Math.floor(random() * limit)
  const pick = <T>(from: readonly T[]) => from[below(from.length)] as T
  /** Each seed has some kinds of faults only: a fault is not hidden by all the others. */
  const mayHappen = () => random() < 0.5
  const isLong = random() < 0.25
  const loadMs = isLong ? 100_000 : 28_000

  const violations: string[] = []
  const faults = new Map<string, number>()
  const faultsOf = new Map<string, number>()
  /** Faults that disconnect nodes for longer: kills, partitions, failovers. */
  let upheavals = 0
  let trace = 0
  const counts = {
    answered: 0,
    refused: 0,
    unavailable: 0,
    confirmed: 0,
    reads: 0,
    staleReads: 0,
    cooldowns: 0,
  }

  const time = createVirtualTime()
  const violate = (what: string) => {
    if (violations.length < 5) violations.push(`at ${Math.round(time.nowMs())} ms: ${what}`)
  }
  function note(fault: string, node: string): void {
    if (UPHEAVALS.test(fault)) upheavals += 1
    faults.set(fault, (faults.get(fault) ?? 0) + 1)
    faultsOf.set(node, (faultsOf.get(node) ?? 0) + 1)
    for (const char of `${fault}${node}${time.nowMs()}`)
      trace = (Math.imul(trace, 31) + char.charCodeAt(0)) | 0
  }
  const store = createSimulatedStore(() => time.nowMs() + 5_000_000)
  const network = createSimulatedNetwork({ time, random, onFault: note })
  const locks = createSimulatedLocks(time, random)
  let timeline = 1
  const wallOffsets = new Map<string, number>()
  const world: World = {
    time,
    random,
    store,
    network,
    locks,
    timeline: () => timeline,
    wallOffsetMs: id => wallOffsets.get(id) ?? 0,
    wrap: (parts, of, id) => bug.wrap?.(parts, of, id) ?? parts,
  }

  store.openAccount({ kind: 'user', ownerId: 1 }, 2_000 + below(3_000))
  store.openAccount({ kind: 'user', ownerId: 2 }, 1_000_000)
  store.openAccount({ kind: 'token', ownerId: 1 }, 0, true)
  store.openAccount({ kind: 'token', ownerId: 2 }, 2_000 + below(10_000))
  store.openAccount({ kind: 'token', ownerId: 3 }, 0, true)

  const disks = new Map<string, SimulatedDisk>()
  const lives = new Map<string, Life>()
  const nodes = new Map<string, SimulatedNode>()
  const running = () => [...nodes.values()].filter(node => node.isAlive())
  const invariants = createInvariants({
    store,
    accounts: ACCOUNTS,
    nodes: () => [...nodes.values()],
    isReachable: network.isReachable,
    nowMs: time.nowMs,
    storeVersion: network.executions,
    onViolation: violate,
  })
  const answers: Answer[] = []
  const answeredRids = new Set<string>()

  let isStopping = false
  const stop = (node: SimulatedNode) =>
    void node.close().catch(error => {
      if (!invariants.isRetired(node.id)) violate(`${node.id} does not stop: ${error.message}`)
    })

  /** Starts a process of a node, and again after each failure to start, as a service manager does. */
  async function boot(id: string): Promise<void> {
    for (;;) {
      if (lives.get(id)?.isAlive) return
      const life: Life = { id, start: (lives.get(id)?.start ?? 0) + 1, isAlive: true, session: 0 }
      lives.set(id, life)
      const disk = disks.get(id) ?? createSimulatedDisk()
      if (life.start > 1) bug.onRestart?.(disk)
      disks.set(id, disk)
      try {
        const node = await startNode(world, disk, life)
        nodes.set(id, node)
        if (isStopping) stop(node)
        return
      } catch (error) {
        life.isAlive = false
        const { name, message } = error as Error
        if (message.endsWith('was retired')) return
        if (name !== 'UnreachableError') violate(`${id} does not start: ${message}`)
        await time.wait(500)
      }
    }
  }

  function kill(id: string): void {
    const life = lives.get(id)
    if (!life?.isAlive) return
    life.isAlive = false
    locks.breakSession(life.session)
    invariants.onKill(id, rid => answeredRids.has(rid))
    note('kill', id)
  }

  let requests = 0
  const admissions: number[] = []
  /** A machine counts the current second and the 59 before it. */
  function noteAdmission(): void {
    const nowMs = time.nowMs()
    admissions.push(nowMs)
    const inWindow = admissions.filter(ms => ms > nowMs - WINDOW_MS).length
    if (inWindow > RPM && !invariants.hasLost()) violate(`${inWindow} requests in a window of ${RPM}`)
  }

  async function takeHold(
    node: SimulatedNode,
    payer: Payer,
    amount: number,
  ): Promise<{ hold: Hold; rid: string } | undefined> {
    const rid = `r${++requests}`
    const { userId, tokenId } = payer
    const wait = invariants.beginWait(accountsOf(payer))
    try {
      const request = {
        rid,
        userId,
        tokenId,
        tokenName: '',
        model: 'm',
        amount,
        isStream: false,
        address: '',
      }
      const hold = await node.ledger.hold(request)
      invariants.onHold(node.id, accountsOf(payer), amount)
      return { hold, rid }
    } catch (error) {
      if (!(error instanceof Refusal) || error.code !== 'insufficient_quota') counts.unavailable += 1
      else {
        counts.refused += 1
        // Another request of the same decision may have taken what was idle.
        await time.wait(0)
        if (wait.leastIdle >= amount)
          violate(`${node.id} refused ${amount} of user ${userId} while ${wait.leastIdle} were idle`)
      }
      return undefined
    } finally {
      invariants.endWait(wait)
    }
  }

  async function settle(
    node: SimulatedNode,
    payer: Payer,
    { hold, rid }: { hold: Hold; rid: string },
    { amount, isExtended }: { amount: number; isExtended: boolean },
  ): Promise<void> {
    const isOverrun = random() < 0.03
    const cost = isOverrun ? amount + below(amount) : below(amount + 1)
    const accounts = accountsOf(payer)
    // What such a request takes from its lease meanwhile is not observed.
    const isObserved = !isOverrun && !isExtended
    if (isOverrun) invariants.onOverrun(1)
    if (isObserved) {
      invariants.onRelease(node.id, accounts, amount)
      invariants.onSettle(rid, node.id, accounts, cost)
    }
    const paid = await hold.settle({ channelId: 1, cost, log: USAGE })
    if (paid > cost) violate(`the request ${rid} cost ${cost}, and ${paid} was paid`)
    if (!isObserved) {
      invariants.onRelease(node.id, accounts, amount)
      invariants.onSettle(rid, node.id, accounts, paid)
    }
    if (isOverrun) invariants.onOverrun(-1)
    counts.answered += 1
    answeredRids.add(rid)
    answers.push({ rid, nodeId: node.id, paid, payer })
  }

  /** A stream extends its hold while it runs, and is settled without waiting for that. */
  async function settleExtended(
    node: SimulatedNode,
    payer: Payer,
    heldRequest: { hold: Hold; rid: string },
    amount: number,
  ): Promise<void> {
    invariants.onOverrun(1)
    const extending = heldRequest.hold.extend(1 + Math.floor(streamRandom() * 3 * amount)).catch(() => false)
    await settle(node, payer, heldRequest, { amount, isExtended: true })
    await extending
    invariants.onOverrun(-1)
  }

  async function request(atMs: number): Promise<void> {
    await time.wait(atMs)
    const candidates = running().filter(node => !node.isFenced())
    if (candidates.length === 0) return
    const node = pick(candidates)
    const payer = pick(PAYERS)
    const amount = 20 + below(payer.userId === 1 ? 200 : 400)
    const admission = payer.subject && (await node.rates.admit([payer.subject], 1))
    if (admission && !admission.ok) return
    if (admission) noteAdmission()
    const heldRequest = await takeHold(node, payer, amount)
    if (heldRequest) {
      const { hold } = heldRequest
      if (random() < 0.1) {
        invariants.onRelease(node.id, accountsOf(payer), amount)
        hold.release()
      } else {
        await hold.attempt(1, amount).catch(() => {})
        await node.wait(random() * (random() < 0.1 ? 6_000 : 1_500))
        if (random() < 0.3) hold.progress(below(amount))
        await node.wait(random() * 300)
        const isExtended = streamRandom() < EXTENDED_SHARE
        const settling = isExtended
          ? settleExtended(node, payer, heldRequest, amount)
          : settle(node, payer, heldRequest, { amount, isExtended })
        // The journal could not be written: the client gets an error, and the record is written later or lost.
        await settling.catch(() => {})
      }
    }
    if (admission) admission.ticket.end(0)
  }

  let changes = 0
  async function change(atMs: number): Promise<void> {
    await time.wait(atMs)
    const [node] = running().toSorted(() => random() - 0.5)
    if (!node) return
    const target = pick(TARGETS)
    // Two changes at the same time are numbered as the store executes them.
    const serial = await node.change(target, () => ++changes).catch(() => undefined)
    if (serial === undefined) return
    counts.confirmed += 1
    invariants.onConfirmed(target, serial)
  }

  async function read(atMs: number): Promise<void> {
    await time.wait(atMs)
    const [node] = running().toSorted(() => random() - 0.5)
    if (!node) return
    const { userId } = pick(PAYERS)
    const account: AccountId = { kind: 'user', ownerId: userId }
    const before = answers.filter(
      ({ payer, nodeId }) => payer.userId === userId && !invariants.isRetired(nodeId),
    )
    const result = await node.readBalance(account).catch(() => undefined)
    if (!result) return
    counts.reads += 1
    if (!result.isCurrent) counts.staleReads += 1
    const expected = before.reduce(
      (sum, { paid, nodeId }) => sum + (invariants.isRetired(nodeId) ? 0 : paid),
      0,
    )
    if (result.isCurrent && result.posted < expected)
      violate(`a balance read on ${node.id} has ${result.posted} of the ${expected} that clients know`)
  }

  let channels = 0
  async function coolDown(atMs: number): Promise<void> {
    await time.wait(atMs)
    const [node] = running().toSorted(() => random() - 0.5)
    if (!node || !network.isReachable(node.id)) return
    counts.cooldowns += 1
    const channelId = ++channels
    const startMs = time.nowMs()
    const before = new Map(faultsOf)
    const upheavalsBefore = upheavals
    const witnesses = running().filter(
      ({ id, startedMs }) => network.isReachable(id) && startMs - startedMs > 2_000,
    )
    node.reportCooldown({ channelId, cooldown: { forMs: 30_000, reason: '429', strikes: 1, cooldowns: 1 } })
    await time.wait(KNOWN_WITHIN_MS)
    const faultsSince = (id: string) => (faultsOf.get(id) ?? 0) - (before.get(id) ?? 0)
    const check = (isWellConnected: (id: string) => boolean) => {
      if (!node.isAlive() || upheavals > upheavalsBefore) return
      // A fenced node serves no request, and is not called if a failover has lost its row.
      for (const witness of witnesses)
        if (
          witness.isAlive() &&
          !witness.isFenced() &&
          isWellConnected(witness.id) &&
          !witness.knowsCooldown(channelId)
        )
          violate(`${witness.id} does not know a cooldown of ${node.id}`)
    }
    // Lost messages and failed statements are repeated, but not always in time.
    if (faultsSince(node.id) === 0) check(id => faultsSince(id) === 0)
    await time.wait(KNOWN_LATE_MS)
    check(() => true)
  }

  async function killOnce(atMs: number): Promise<void> {
    await time.wait(atMs)
    const id = pick(NODES)
    kill(id)
    await time.wait(200 + random() * (random() < 0.5 ? 2_000 : 20_000))
    await boot(id)
  }
  async function startNow(id: string): Promise<void> {
    note('start before a failover', id)
    kill(id)
    await boot(id)
  }
  async function cutOnce(atMs: number): Promise<void> {
    await time.wait(atMs)
    const id = pick(NODES)
    note('partition', id)
    network.cut(id)
    await time.wait(random() * (random() < 0.5 ? 3_000 : 25_000))
    network.rejoin(id)
  }
  async function failOver(atMs: number): Promise<void> {
    await time.wait(atMs)
    const isLossy = random() < 0.6
    const standby: StoreState | undefined = isLossy ? store.copy() : undefined
    if (isLossy) {
      // A node that starts in the moment that is lost: its registration is lost, too.
      if (random() < 0.5) void startNow(pick([...NODES, NEW_NODE]))
      await time.wait(random() * 3_000)
    }
    note(isLossy ? 'failover to a standby that lags' : 'failover', '')
    network.setStoreUp(false)
    await time.wait(random() * 4_000)
    if (standby) {
      store.restore(standby)
      invariants.onLoss()
    }
    timeline += 1
    locks.releaseAll()
    network.setStoreUp(true)
  }
  async function jumpClock(atMs: number): Promise<void> {
    await time.wait(atMs)
    const id = pick(NODES)
    note('clock jump', id)
    wallOffsets.set(id, (random() - 0.5) * (random() < 0.5 ? 30_000 : 1_200_000))
  }
  async function fillDisk(atMs: number): Promise<void> {
    await time.wait(atMs)
    const id = pick(NODES)
    note('full disk', id)
    disks.get(id)?.setFull(true)
    await time.wait(random() * 3_000)
    disks.get(id)?.setFull(false)
  }
  /** A node is silent until it is fenced. An operator retires it, and then it comes back. */
  async function retireOne(atMs: number): Promise<void> {
    await time.wait(atMs)
    const id = pick(NODES)
    const isKilled = random() < 0.5
    if (isKilled) kill(id)
    note('partition', id)
    network.cut(id)
    await time.wait(FENCE_MS + FENCE_MARGIN_MS + 500 + random() * 3_000)
    const row = store.state().heartbeats.get(id)
    if (row && time.nowMs() + 5_000_000 - row.beatMs > row.fenceMs + FENCE_MARGIN_MS) {
      note('retirement', id)
      store.fleet.retire(id)
      invariants.onRetire(id)
      void boot('d')
    }
    await time.wait(random() * 4_000)
    network.rejoin(id)
    if (isKilled) await boot(id)
  }

  const rates: FaultRates = {
    failedStatement: mayHappen() ? 0.01 : 0,
    lostAcknowledgement: mayHappen() ? 0.02 : 0,
    slowStatement: mayHappen() ? 0.01 : 0,
    lostMessage: mayHappen() ? 0.1 : 0,
    repeatedMessage: mayHappen() ? 0.1 : 0,
    lateMessage: mayHappen() ? 0.05 : 0,
  }
  const times = (most: number, run: (atMs: number) => Promise<void>) => {
    const count = mayHappen() ? 1 + below(most) : 0
    for (let turn = 0; turn < count; turn++) void run(3_000 + random() * (loadMs - 8_000))
  }

  for (const id of NODES) void boot(id)
  await time.run(1_000)
  network.setRates(rates)
  const load = (count: number, run: (atMs: number) => Promise<void>) => {
    for (let turn = 0; turn < count; turn++) void run(random() * loadMs)
  }
  load(isLong ? 120 : 90, request)
  load(8, change)
  load(8, read)
  load(6, coolDown)
  times(3, killOnce)
  times(2, cutOnce)
  if (random() < 0.3) times(1, failOver)
  times(2, jumpClock)
  if (random() < 0.2) times(1, fillDisk)
  if (random() < 0.25) times(1, retireOne)
  await time.run(1_000 + loadMs, invariants.check)

  // Everything works again: nothing may be lost, and nothing may stay on hold.
  network.setRates(NO_FAULTS)
  for (const id of NODES) {
    network.rejoin(id)
    disks.get(id)?.setFull(false)
    if (!lives.get(id)?.isAlive) void boot(id)
  }
  await time.run(time.nowMs() + QUIET_MS, invariants.check)
  for (const { id, isFenced } of running())
    if (isFenced() && !invariants.isRetired(id))
      violate(`${id} refuses requests although everything works again`)
  isStopping = true
  for (const node of running()) stop(node)
  const stopByMs = time.nowMs() + STOP_WITHIN_MS
  while (running().length > 0 && time.nowMs() < stopByMs) await time.run(time.nowMs() + 500, invariants.check)
  for (const node of running()) if (!invariants.isRetired(node.id)) violate(`${node.id} does not stop`)
  for (const { rid, nodeId } of answers)
    if (invariants.entryCount(rid) === 0 && !invariants.isRetired(nodeId))
      violate(`the request ${rid} was answered by ${nodeId} and is lost`)
  for (const { settled } of store.state().entries) {
    const answer = answers.find(({ rid }) => rid === settled.rid)
    if (answer && answer.paid !== settled.cost)
      violate(`the request ${settled.rid} cost ${settled.cost}, and ${answer.paid} was answered`)
  }
  for (const { nodeId, account, amount } of store.state().leases.values())
    if (amount !== 0) violate(`${amount} of ${account.kind} ${account.ownerId} stay leased to ${nodeId}`)
  for (const disk of disks.values()) disk.close()
  return { violations, faults, trace, ...counts }
}

export type SeedResult = Awaited<ReturnType<typeof simulate>>
