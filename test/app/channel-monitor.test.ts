import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type ChannelDecision, createChannelMonitor } from '../../src/app/channel-monitor.ts'
import type { HealthEvent } from '../../src/domain/channel-condition.ts'
import type { KeyTestResult } from '../../src/relay/channel-test.ts'
import { NO_KEY, type RoutedChannel, type RoutedKey } from '../../src/routing/table.ts'

const MINUTE = 60_000

function openCare(runsRecovery?: () => boolean) {
  const state = { nowMs: 1_000_000, isGood: true, isSaved: true, status: 1 }
  const decisions: ChannelDecision[] = []
  const announcements: string[] = []
  const tests: number[] = []
  const events: HealthEvent[] = []
  const key: RoutedKey = { ...NO_KEY, status: 1 }
  const channels = () => [
    { id: 4, status: state.status, keys: [key], autoBan: true } as unknown as RoutedChannel,
    { id: 5, status: 2, keys: [key] } as unknown as RoutedChannel,
  ]
  const monitor = createChannelMonitor<RoutedChannel>({
    channels,
    channel: id => channels().find(each => each.id === id),
    testChannel: async id => {
      tests.push(id)
      return { id, isGood: state.isGood, latencyMs: 12, key } as unknown as KeyTestResult
    },
    saveDecision: async decision => {
      decisions.push(decision)
      return state.isSaved
    },
    saveTest: async (id, ms) => void announcements.push(`test of ${id}: ${ms} ms`),
    announce: async targets => void announcements.push(...targets),
    shareHealth: event => void events.push(event),
    runsRecovery,
    nowMs: () => state.nowMs,
    log: { warn() {}, error() {} },
  })
  return { monitor, state, decisions, announcements, tests, events, key }
}

/** The monitor of a channel in which decisions are in effect as soon as they are saved. */
function openCareOf(
  state: { channel: RoutedChannel },
  isGood: (key: RoutedKey | undefined) => boolean = () => false,
) {
  let nowMs = 1_000_000
  const decisions: ChannelDecision[] = []
  const events: HealthEvent[] = []
  const monitor = createChannelMonitor<RoutedChannel>({
    channels: () => [state.channel],
    channel: () => state.channel,
    testChannel: async (id, { key }) => ({ id, isGood: isGood(key), key }) as unknown as KeyTestResult,
    async saveDecision(decision) {
      const { key: decided, status } = decision
      const { channel } = state
      const keys = channel.keys.map(key => (key.id === decided?.id ? { ...key, status } : key))
      if (decided === undefined && channel.status === status) return false
      state.channel = decided === undefined ? { ...channel, status } : { ...channel, keys }
      decisions.push(decision)
      return true
    },
    saveTest: async () => {},
    announce: async (): Promise<void> => monitor.health.prune(() => state.channel),
    shareHealth: event => void events.push(event),
    runsRecovery: undefined,
    nowMs: () => nowMs,
    log: { warn() {}, error() {} },
  })
  const pass = (ms: number) => {
    nowMs += ms
  }
  return { monitor, decisions, events, pass }
}

describe('the channel monitor', () => {
  it('shares cooldowns and their end with other nodes, and adopts those of others without sharing them again', () => {
    const here = openCare()
    const there = openCare()
    const [channel] = [{ id: 4, status: 1, keys: [here.key], autoBan: true } as unknown as RoutedChannel]
    const attempt = here.monitor.health.begin({ channel, key: here.key })
    attempt.end({ kind: '429', retryAfterMs: 40_000, detail: 'slow down' })
    assert.equal(here.events.length, 1)
    there.monitor.adoptHealth(here.events)
    assert.deepEqual(there.monitor.conditions(), here.monitor.conditions())
    assert.deepEqual(there.monitor.cooldowns(), here.events)
    assert.deepEqual(there.events, [])
    there.state.nowMs += 40_000
    there.monitor.health.begin({ channel, key: there.key }).end({ kind: 'ok' })
    here.monitor.adoptHealth(there.events)
    assert.deepEqual(here.monitor.conditions(), [])
  })

  it('adopts nothing for another key, if a key before it was deleted here while another node sent its cooldown', () => {
    const keyAt = (index: number, id: number): RoutedKey => ({ id, index, value: `key ${id}`, status: 1 })
    const channelOf = (keys: RoutedKey[]) =>
      ({ id: 4, status: 1, keys, autoBan: true }) as unknown as RoutedChannel
    const state = { channel: channelOf([keyAt(0, 71), keyAt(1, 72), keyAt(2, 73)]) }
    const { monitor, events } = openCareOf(state)
    for (const [index, forMs] of [10_000, 20_000].entries())
      monitor.health
        .begin({ channel: state.channel, key: state.channel.keys[index] as RoutedKey })
        .end({ kind: '429', retryAfterMs: forMs, detail: 'slow down' })
    const there = openCareOf({ channel: channelOf([keyAt(0, 72), keyAt(1, 73)]) })
    there.monitor.adoptHealth(events)
    const [condition] = there.monitor.conditions()
    assert.deepEqual(
      condition?.keys.map(({ index, againInMs }) => [index, againInMs]),
      [[0, 20_000]],
    )
  })

  it('lists enabled channels that are not ready, and counts them as cooling down', () => {
    const { monitor, key } = openCare()
    assert.deepEqual(monitor.enabledIds(), [4])
    assert.deepEqual(monitor.conditions(), [])
    const channel = { id: 4, keys: [key], autoBan: true } as unknown as RoutedChannel
    monitor.health.begin({ channel, key }).end({ kind: 'auth', detail: '401 bad_key: No.' })
    const condition = { state: 'resting', againInMs: 30_000, reason: '401 bad_key: No.' }
    assert.deepEqual(monitor.conditions(), [
      { id: 4, channel: condition, keys: [{ index: 0, ...condition }] },
    ])
    const keys = { enabled: 0, disabled: 0, auto_disabled: 0, cooling_down: 0 }
    assert.deepEqual(monitor.states(monitor.conditions()), [
      { id: 4, state: 'cooling_down', keys: { ...keys, cooling_down: 1 } },
      { id: 5, state: 'disabled', keys: { ...keys, enabled: 1 } },
    ])
  })

  it('disables a key with the words of the provider', () => {
    const { monitor, key, decisions, state } = openCare()
    const channel = { id: 4, keys: [key], autoBan: true } as unknown as RoutedChannel
    for (const afterMs of [0, 30_000, 60_000]) {
      state.nowMs += afterMs
      monitor.health.begin({ channel, key }).end({ kind: 'auth', detail: '401 bad_key: No.' })
    }
    assert.deepEqual(decisions, [{ channelId: 4, key: undefined, status: 3, reason: '401 bad_key: No.' }])
  })

  it('disables a channel whose last keys are rejected at the same time', async () => {
    const keys: RoutedKey[] = [1, 2].map(number => ({
      id: number,
      index: number - 1,
      value: `key ${number}`,
      status: 1,
    }))
    const state = { channel: { id: 4, status: 1, keys, autoBan: true } as unknown as RoutedChannel }
    const { monitor, decisions, pass } = openCareOf(state)
    const begin = () => keys.map(key => monitor.health.begin({ channel: state.channel, key }))
    for (const afterMs of [0, 30_000]) {
      pass(afterMs)
      for (const attempt of begin()) attempt.end({ kind: 'auth', detail: '401' })
    }
    pass(60_000)
    // The second one still has the channel without the decision about the first one.
    for (const attempt of begin()) {
      attempt.end({ kind: 'auth', detail: '401' })
      await new Promise(setImmediate)
    }
    const decision = { channelId: 4, status: 3, reason: '401' }
    assert.deepEqual(decisions, [
      { ...decision, key: keys[0] },
      { ...decision, key: keys[1] },
      { ...decision, key: undefined },
    ])
    assert.equal(state.channel.status, 3)
  })

  it('disables the rejected key, also if keys before it were deleted while the request ran', async () => {
    const IDS: Record<string, number> = { old: 71, bad: 72, good: 73 }
    const keyAt = (index: number, value: string): RoutedKey => ({
      id: IDS[value] ?? 0,
      index,
      value,
      status: 1,
    })
    const channelOf = (keys: RoutedKey[]) =>
      ({ id: 4, status: 1, keys, autoBan: true }) as unknown as RoutedChannel
    const state = { channel: channelOf([keyAt(0, 'old'), keyAt(1, 'bad'), keyAt(2, 'good')]) }
    const { monitor, decisions, pass } = openCareOf(state)
    const begin = () => monitor.health.begin({ channel: state.channel, key: keyAt(1, 'bad') })
    for (const afterMs of [0, 30_000]) {
      pass(afterMs)
      begin().end({ kind: 'auth', detail: '401' })
    }
    pass(60_000)
    const last = begin()
    state.channel = channelOf([keyAt(0, 'bad'), keyAt(1, 'good')])
    last.end({ kind: 'auth', detail: '401' })
    await new Promise(setImmediate)
    assert.deepEqual(decisions, [{ channelId: 4, key: keyAt(0, 'bad'), status: 3, reason: '401' }])
  })

  for (const before of [['bad'], ['bad', 'good']])
    it(`disables nothing if the rejected key, one of ${before.length}, was replaced while the request ran`, async () => {
      const keys: RoutedKey[] = before.map((value, index) => ({ id: index + 71, index, value, status: 1 }))
      const state = { channel: { id: 4, status: 1, keys, autoBan: true } as unknown as RoutedChannel }
      const { monitor, decisions, pass } = openCareOf(state)
      const [bad] = keys as [RoutedKey]
      const begin = () => monitor.health.begin({ channel: state.channel, key: bad })
      for (const afterMs of [0, 30_000]) {
        pass(afterMs)
        begin().end({ kind: 'auth', detail: '401' })
      }
      pass(60_000)
      const last = begin()
      state.channel = { ...state.channel, keys: [{ id: 80, index: 0, value: 'new', status: 1 }] }
      last.end({ kind: 'auth', detail: '401' })
      await new Promise(setImmediate)
      assert.deepEqual(decisions, [])
    })

  it('enables the tested key, also if keys before it were deleted during the test', async () => {
    const IDS: Record<string, number> = { old: 71, good: 72, bad: 73 }
    const keyAt = (index: number, value: string): RoutedKey => ({
      id: IDS[value] ?? 0,
      index,
      value,
      status: 3,
    })
    const channelOf = (keys: RoutedKey[]) =>
      ({ id: 4, status: 1, keys, autoBan: true }) as unknown as RoutedChannel
    const state = { channel: channelOf([keyAt(0, 'old'), keyAt(1, 'good'), keyAt(2, 'bad')]) }
    const { monitor, decisions, pass } = openCareOf(state, key => {
      if (key?.value === 'good') state.channel = channelOf([keyAt(0, 'good'), keyAt(1, 'bad')])
      return key?.value !== 'bad'
    })
    await monitor.recover()
    pass(5 * MINUTE)
    await monitor.recover()
    await new Promise(setImmediate)
    assert.deepEqual(decisions, [{ channelId: 4, key: keyAt(0, 'good'), status: 1, reason: '' }])
  })

  it('ends the cooldown on every worker after a successful test', async () => {
    const { monitor, announcements } = openCare()
    await monitor.test(4)
    assert.deepEqual(announcements, ['test of 4: 12 ms', `cooldown:4:${NO_KEY.id}`])
  })

  it('announces nothing after a failed test', async () => {
    const { monitor, state, announcements } = openCare()
    state.isGood = false
    await monitor.test(4)
    assert.deepEqual(announcements, ['test of 4: 12 ms'])
  })

  it('tests an auto-disabled channel after five minutes, and enables it when the test succeeds', async () => {
    const { monitor, state, decisions, announcements, tests } = openCare()
    state.status = 3
    await monitor.recover()
    assert.deepEqual(tests, [])
    state.nowMs += 5 * MINUTE
    await monitor.recover()
    // The decision is saved beside the test, not before its result is returned.
    await new Promise(setImmediate)
    assert.deepEqual(tests, [4])
    assert.deepEqual(decisions, [{ channelId: 4, key: undefined, status: 1, reason: '' }])
    assert.deepEqual(announcements, ['channel:4'])
  })

  it('runs recovery tests only while its node runs the jobs of all nodes', async test => {
    test.mock.timers.enable({ apis: ['setInterval'] })
    let isLeader = false
    const { monitor, state, tests } = openCare(() => isLeader)
    state.status = 3
    const passTime = async () => {
      for (let turn = 0; turn < 2; turn++) {
        test.mock.timers.tick(15_000)
        await new Promise(setImmediate)
        state.nowMs += 5 * MINUTE
      }
    }
    await passTime()
    assert.deepEqual(tests, [])
    isLeader = true
    await passTime()
    assert.deepEqual(tests, [4])
    monitor.close()
  })

  it('announces no decision that an administrator has overruled', async () => {
    const { monitor, state, decisions, announcements } = openCare()
    Object.assign(state, { status: 3, isSaved: false })
    await monitor.recover()
    state.nowMs += 5 * MINUTE
    await monitor.recover()
    await new Promise(setImmediate)
    assert.equal(decisions.length, 1)
    assert.deepEqual(announcements, [])
  })
})
