import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { createFleetRates, type FleetRates, type ShareNotice } from '../../src/routing/fleet-rates.ts'
import { createRates, type Subject } from '../../src/routing/rates.ts'
import type { MachineShare } from '../../src/routing/shares.ts'
import { createRandom } from '../support/request-bytes.ts'
import { createVirtualTime } from './virtual-time.ts'

const SEEDS = 6
const MACHINES = ['a', 'b', 'c']
const FENCE_MS = 20_000

type Faults = { readonly lossOfMessages: number; readonly lossOfAnswers: number }

/** Three machines with one store. Statements take time, and answers and messages may be lost. */
function createWorld(seed: number, faults: Faults) {
  const random = createRandom(seed)
  const time = createVirtualTime()
  const rows = new Map<string, { version: number; shares: string }>()
  const beats = new Map(MACHINES.map(machine => [machine, 0]))
  const machines = new Map<string, FleetRates>()
  const counts = { replaced: 0, lostAnswers: 0, lostMessages: 0 }

  /** A statement is executed once, sometime between its sending and its answer, or after the client has given up. */
  async function statement<T>(execute: () => T): Promise<T> {
    await time.wait(random() * 4)
    if (random() < faults.lossOfAnswers) {
      counts.lostAnswers += 1
      void time.wait(random() * 3_000).then(() => (random() < 0.7 ? execute() : undefined))
      await time.wait(random() * 1_000)
      throw new Error('the connection broke')
    }
    const result = execute()
    await time.wait(random() * 4)
    return result
  }

  const createMachine = (machine: string) =>
    createFleetRates({
      own: createRates({ nowMs: time.nowMs }),
      machine,
      store: {
        read: subject =>
          statement(() => {
            const row = rows.get(subject) ?? { version: 0, shares: '[]' }
            return {
              version: row.version,
              shares: JSON.parse(row.shares) as MachineShare[],
              nowMs: time.nowMs(),
              fencedMs: new Map([...beats].map(([name, beatMs]) => [name, beatMs + FENCE_MS])),
            }
          }),
        replace: (subject, version, shares) =>
          statement(() => {
            if ((rows.get(subject)?.version ?? 0) !== version) return false
            rows.set(subject, { version: version + 1, shares: JSON.stringify(shares) })
            counts.replaced += 1
            return true
          }),
      },
      async send(notice: ShareNotice) {
        for (const receiver of machines.values())
          if (random() < faults.lossOfMessages) counts.lostMessages += 1
          else void time.wait(random() * 10).then(() => receiver.receive(notice))
      },
      nowMs: time.nowMs,
      wait: time.wait,
      onFailure: () => {},
    })
  for (const machine of MACHINES) machines.set(machine, createMachine(machine))
  return { random, time, beats, machines, counts }
}

type Load = {
  readonly subject: Subject
  readonly requests: number
  readonly skewed: boolean
  readonly forMs: number
}

/** Sends requests to the machines and checks after each admission that no limit is exceeded. */
async function simulate(seed: number, faults: Faults, { subject, requests, skewed, forMs }: Load) {
  const world = createWorld(seed, faults)
  const { time, random, machines, beats } = world
  const admissions: number[] = []
  let running = 0
  let mostRunning = 0
  let mostInWindow = 0
  const names = [...machines.keys()]

  async function request(atMs: number): Promise<void> {
    await time.wait(atMs)
    const name = skewed && random() < 0.9 ? 'a' : (names[Math.floor(random() * names.length)] as string)
    const admission = await machines.get(name)?.admit([subject], 1)
    if (!admission?.ok) return
    const nowMs = time.nowMs()
    admissions.push(nowMs)
    running += 1
    mostRunning = Math.max(mostRunning, running)
    // The current second and the 59 before it count, so requests that are 59 s apart may be in different windows.
    const inWindow = admissions.filter(ms => ms > nowMs - 59_000).length
    mostInWindow = Math.max(mostInWindow, inWindow)
    await time.wait(random() * 2_000)
    running -= 1
    admission.ticket.end(0)
  }

  const load = Array.from({ length: requests }, () => request(random() * forMs))
  // Machines with a heartbeat stay members.
  const beating = Array.from({ length: Math.ceil(forMs / 1_000) + 10 }, async (_each, second) => {
    await time.wait(second * 1_000)
    for (const name of names) beats.set(name, time.nowMs())
    if (second % 10 === 0) for (const rates of machines.values()) await rates.sweep().catch(() => {})
  })
  await time.run(forMs + 60_000)
  await Promise.all([...load, ...beating])
  return { admitted: admissions.length, mostInWindow, mostRunning, ...world.counts }
}

const limited = (limits: Partial<Subject['limits']>): Subject => ({
  kind: 'token',
  id: 7,
  limits: { rpm: null, tpm: null, concurrency: null, ...limits },
})

const NO_FAULTS = { lossOfMessages: 0, lossOfAnswers: 0 }
const FAULTS = { lossOfMessages: 0.2, lossOfAnswers: 0.05 }

describe('shares of rate limits in a simulated world (docs/adr/0024-shares-of-rate-limits.md)', () => {
  for (const skewed of [false, true])
    for (const faults of [NO_FAULTS, FAULTS])
      it(`never exceed a limit, ${skewed ? 'skewed' : 'even'} load, ${faults === FAULTS ? 'with' : 'without'} faults`, async () => {
        let lost = 0
        for (let seed = 1; seed <= SEEDS; seed++) {
          const rpm = 1 + (seed % 40)
          const result = await simulate(seed, faults, {
            subject: limited({ rpm }),
            requests: 120,
            skewed,
            forMs: 50_000,
          })
          assert.ok(result.mostInWindow <= rpm, `seed ${seed}: ${result.mostInWindow} of ${rpm}`)
          // All requests are in one window: without faults, at least 95 % of the limit is used.
          if (faults === NO_FAULTS)
            assert.ok(
              result.admitted >= Math.floor(rpm * 0.95),
              `seed ${seed}: only ${result.admitted} of ${rpm}`,
            )
          const concurrency = 1 + (seed % 8)
          const slots = await simulate(seed, faults, {
            subject: limited({ concurrency }),
            requests: 150,
            skewed,
            forMs: 10_000,
          })
          assert.ok(slots.mostRunning <= concurrency, `seed ${seed}: ${slots.mostRunning} of ${concurrency}`)
          lost += result.lostAnswers + slots.lostAnswers + result.lostMessages + slots.lostMessages
        }
        assert.equal(lost > 0, faults === FAULTS)
      })
})
