import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { createChangeFeed } from '../../src/fleet/change-feed.ts'
import { createConfirmations } from '../../src/fleet/confirmations.ts'
import type { FleetClock, FleetStore, NodeRecord, Snapshot } from '../../src/fleet/fleet.ts'
import { createMembership } from '../../src/fleet/membership.ts'
import { createObservations } from '../../src/fleet/observations.ts'
import { createRandom } from '../support/request-bytes.ts'
import { createVirtualTime } from './virtual-time.ts'

const SEEDS = 8
const NODES = 3
const FENCE_MS = 15_000
const FOR_MS = 120_000

/**
 * Nodes of different machines with one store. A node can be cut off from the store: then its statements fail, or are executed
 * later. Messages are lost, late or repeated. The clocks of the nodes and of the store differ.
 */
function createWorld(seed: number) {
  const random = createRandom(seed)
  const time = createVirtualTime()
  const rows = new Map<string, NodeRecord>()
  let position = 0
  const cutOff = new Set<string>()
  const faults = { failed: 0, late: 0, lostMessages: 0, cuts: 0 }
  const storeClockMs = () => time.nowMs() + 1_000_000

  async function statement<T>(node: string, execute: () => T): Promise<T> {
    await time.wait(random() * 5)
    if (cutOff.has(node) || random() < 0.01) {
      faults.failed += 1
      // The statement may wait in the server and be executed when the client has given up.
      if (random() < 0.3) {
        faults.late += 1
        void time.wait(random() * 40_000).then(execute)
      }
      await time.wait(random() * 5_000)
      throw new Error('the connection broke')
    }
    const result = execute()
    await time.wait(random() < 0.03 ? random() * 25_000 : random() * 5)
    return result
  }

  const snapshot = (): Snapshot => ({ position, nowMs: storeClockMs(), nodes: [...rows.values()] })
  const receivers = new Map<string, (message: 'changed' | { node: string; applied: number }) => void>()
  function send(message: 'changed' | { node: string; applied: number }): void {
    for (const [node, receive] of receivers)
      for (let copy = 0; copy < (random() < 0.1 ? 2 : 1); copy++)
        if (cutOff.has(node) || random() < 0.2) faults.lostMessages += 1
        else void time.wait(random() * (random() < 0.05 ? 3_000 : 20)).then(() => receive(message))
  }

  function createNode(id: string) {
    const clock: FleetClock = {
      monotonicMs: () => time.nowMs() + 7_000 * id.charCodeAt(0),
      wallMs: () => time.nowMs() + 500_000 * id.charCodeAt(0),
      wait: time.wait,
    }
    const store: FleetStore = {
      beat: ({ renews, applied }) =>
        statement(id, () => {
          const row = rows.get(id) as NodeRecord
          rows.set(id, {
            ...row,
            applied: Math.max(row.applied, applied),
            beatMs: renews ? storeClockMs() : row.beatMs,
          })
          return { ...snapshot(), isMember: true }
        }),
      join: async () => assert.fail('no row is lost'),
      wake: () =>
        statement(id, () => {
          send('changed')
          const all = snapshot()
          return { ...all, nodes: all.nodes.filter(node => node.machine !== id) }
        }),
      acknowledge: applied =>
        statement(id, () => {
          const row = rows.get(id) as NodeRecord
          rows.set(id, { ...row, applied: Math.max(row.applied, applied) })
          send({ node: id, applied })
        }),
      changesAfter: (after, limit) =>
        statement(id, () =>
          Array.from({ length: Math.min(limit, position - after) }, (_each, index) => ({
            seq: after + index + 1,
            target: `token:${after + index + 1}`,
          })),
        ),
    }
    /** The changes that the caches reflect. */
    const cached = new Set<number>()
    const addToCache = (change: number) => void cached.add(change)
    rows.set(id, {
      nodeId: id,
      machine: id,
      state: 'up',
      fenceMs: FENCE_MS,
      beatMs: storeClockMs(),
      applied: position,
    })
    const observations = createObservations(clock)
    const feed = createChangeFeed({
      store,
      async invalidate(targets) {
        await statement(id, () => {})
        for (const target of targets) addToCache(Number(target.split(':')[1]))
      },
    })
    feed.start(position)
    const confirmations = createConfirmations({ store, clock, observations })
    const membership = createMembership({
      fenceMs: FENCE_MS,
      store,
      clock,
      feed,
      observations,
      inFlight: () => 0,
      onSnapshot: confirmations.take,
      onExpelled: () => {},
      onJoinedAgain: () => {},
      onRewind: async () => {},
      onFenceChange: () => {},
      onFailure: () => {},
    })
    receivers.set(id, message => {
      if (message !== 'changed') return confirmations.acknowledge(message.node, message.applied)
      membership
        .beat()
        .then(feed.acknowledge)
        .catch(() => {})
    })
    membership.start()
    return {
      id,
      isFenced: membership.isFenced,
      reflects: (change: number) => cached.has(change),
      /** Makes a change on this node. Resolves to its position, and whether all others have confirmed it. */
      async change() {
        const own = await statement(id, () => ++position)
        feed.note([own])
        addToCache(own)
        const { waiting } = await confirmations.confirm(25_000)
        return { own, isConfirmed: waiting.length === 0 }
      },
      close: membership.close,
    }
  }
  const nodes = Array.from({ length: NODES }, (_each, index) => createNode(String.fromCharCode(97 + index)))
  return { random, time, nodes, cutOff, faults }
}

async function simulate(seed: number) {
  const { random, time, nodes, cutOff, faults } = createWorld(seed)
  const confirmedChanges: number[] = []
  let refused = 0
  const violations: string[] = []

  async function change(atMs: number): Promise<void> {
    await time.wait(atMs)
    const node = nodes[Math.floor(random() * NODES)] as (typeof nodes)[number]
    const result = await node.change().catch(() => undefined)
    if (!result?.isConfirmed) return
    confirmedChanges.push(result.own)
  }
  async function request(atMs: number): Promise<void> {
    await time.wait(atMs)
    for (const { id, isFenced, reflects } of nodes)
      if (isFenced()) refused += 1
      else
        for (const own of confirmedChanges)
          if (!reflects(own)) violations.push(`at ${time.nowMs()} ms, ${id} lacks the change ${own}`)
  }
  async function cut(atMs: number): Promise<void> {
    await time.wait(atMs)
    const { id } = nodes[Math.floor(random() * NODES)] as (typeof nodes)[number]
    cutOff.add(id)
    faults.cuts += 1
    await time.wait(random() * 50_000)
    cutOff.delete(id)
  }
  const work = [
    ...Array.from({ length: 40 }, () => change(random() * FOR_MS)),
    ...Array.from({ length: 800 }, () => request(random() * (FOR_MS + 30_000))),
    ...Array.from({ length: 3 }, () => cut(random() * FOR_MS)),
  ]
  await time.run(FOR_MS + 100_000)
  await Promise.all(work)
  const closing = Promise.all(nodes.map(({ close }) => close()))
  await time.run(time.nowMs() + 60_000)
  await closing
  return { violations, confirmed: confirmedChanges.length, refused, ...faults }
}

describe('changes and fences in a simulated world (docs/adr/0023-nodes-heartbeats-and-fences.md)', () => {
  it('let no node admit a request by an older state than the last confirmed change', async () => {
    const sums = { confirmed: 0, refused: 0, failed: 0, late: 0, lostMessages: 0, cuts: 0 }
    for (let seed = 1; seed <= SEEDS; seed++) {
      const { violations, ...counts } = await simulate(seed)
      assert.deepEqual(violations, [], `seed ${seed}`)
      for (const name of Object.keys(sums) as (keyof typeof sums)[]) sums[name] += counts[name]
    }
    // The world has had each kind of fault, and changes were confirmed nevertheless.
    for (const [name, count] of Object.entries(sums)) assert.ok(count > SEEDS, `${name}: ${count}`)
  })
})
