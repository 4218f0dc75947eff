import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type AttemptOutcome, createHealth, type Disabling } from '../../src/routing/health.ts'
import { plan } from '../../src/routing/plan.ts'
import { createRecovery, type Recovered } from '../../src/routing/recovery.ts'
import { createTable, NO_KEY, type RoutedChannel, type RoutedKey } from '../../src/routing/table.ts'
import { fc } from '../support/properties.ts'

const keyed = (...statuses: readonly RoutedKey['status'][]): RoutedKey[] =>
  statuses.map((status, index) => ({ id: index, index, value: `key-${index}`, status }))

const channel = (id: number, overrides: Partial<RoutedChannel> = {}): RoutedChannel => ({
  id,
  name: `channel ${id}`,
  type: 1,
  models: ['m'],
  mapping: {},
  priority: 0,
  weight: 1,
  status: 1,
  keys: keyed(1),
  limits: { rpm: null, tpm: null, concurrency: null },
  autoBan: true,
  ...overrides,
})

/** A clock that the test sets, and a health tracker that records what it disables. */
function world() {
  let atMs = 1_000_000
  const disabled: Disabling[] = []
  const health = createHealth({ nowMs: () => atMs, onDisable: each => disabled.push(each) })
  const keyAt = (on: RoutedChannel, index: number) => on.keys[index] ?? NO_KEY
  return {
    health,
    disabled,
    pass: (ms: number) => {
      atMs += ms
    },
    begin: (on: RoutedChannel, index = 0) => health.begin({ channel: on, key: keyAt(on, index) }),
    attempt: (on: RoutedChannel, outcome: AttemptOutcome, index = 0) =>
      health.begin({ channel: on, key: keyAt(on, index) }).end(outcome),
    stateOf: (on: RoutedChannel) => health.ofChannel(on.id).state,
    keyOf: (on: RoutedChannel, index = 0) => health.ofKey(on.id, keyAt(on, index)),
    /** What a request could use now. */
    steps: (...channels: RoutedChannel[]) => {
      const route = createTable(channels, []).resolve('m')
      assert.ok(route)
      return plan({ route, health, fullForS: () => 0, random: () => 0, attempts: 9 }).steps
    },
  }
}

const FAILED: AttemptOutcome = { kind: '5xx' }
const REFUSED: AttemptOutcome = { kind: 'auth' }
const OK: AttemptOutcome = { kind: 'ok' }
const one = channel(1)

const failing = (kinds: readonly AttemptOutcome[]) => {
  const w = world()
  for (const kind of kinds) w.attempt(one, kind)
  return w
}

describe('a channel', () => {
  it('cools down for 30 s after five consecutive failures', () => {
    const w = failing([FAILED, { kind: 'connect' }, { kind: 'timeout' }, FAILED])
    assert.equal(w.stateOf(one), 'ready')
    w.attempt(one, FAILED)
    assert.deepEqual(w.health.ofChannel(1), { state: 'resting', againInMs: 30_000 })
    assert.deepEqual(w.steps(one), [])
    w.pass(29_999)
    assert.equal(w.stateOf(one), 'resting')
    w.pass(1)
    assert.equal(w.stateOf(one), 'trial')
  })

  it('resets its failure count after a success', () => {
    const w = failing([FAILED, FAILED, FAILED, FAILED, OK, FAILED, FAILED, FAILED, FAILED])
    assert.equal(w.stateOf(one), 'ready')
    w.attempt(one, FAILED)
    assert.equal(w.stateOf(one), 'resting')
  })

  it('is not affected by a client error, neither as a failure nor as a success', () => {
    assert.equal(failing(Array.from({ length: 50 }, () => ({ kind: 'client' as const }))).health.size(), 0)
    const w = failing([FAILED, FAILED, FAILED, FAILED, { kind: 'client' }, FAILED])
    assert.equal(w.stateOf(one), 'resting')
  })

  it('admits one trial at a time after its cooldown', () => {
    const w = failing(Array.from({ length: 5 }, () => FAILED))
    w.pass(30_000)
    assert.deepEqual(
      w.steps(one).map(step => step.isTrial),
      [true],
    )
    const trial = w.begin(one)
    assert.equal(w.stateOf(one), 'trying')
    assert.deepEqual(w.steps(one), [])
    trial.end(OK)
    assert.equal(w.stateOf(one), 'ready')
    assert.equal(w.steps(one)[0]?.isTrial, false)
    assert.equal(w.health.size(), 0)
  })

  it('doubles its cooldown after each failed trial, up to five minutes, and starts at 30 s again after a success', () => {
    const w = failing(Array.from({ length: 5 }, () => FAILED))
    for (const restMs of [30_000, 60_000, 120_000, 240_000, 300_000, 300_000]) {
      assert.deepEqual(w.health.ofChannel(1), { state: 'resting', againInMs: restMs })
      w.pass(restMs)
      w.attempt(one, FAILED)
    }
    w.pass(300_000)
    w.attempt(one, OK)
    for (let times = 0; times < 5; times += 1) w.attempt(one, FAILED)
    assert.equal(w.health.ofChannel(1).againInMs, 30_000)
  })

  it('counts a hundred concurrent failures as one cooldown', () => {
    const w = world()
    const together = Array.from({ length: 100 }, () => w.begin(one))
    for (const attempt of together) attempt.end(FAILED)
    assert.equal(w.health.ofChannel(1).againInMs, 30_000)
  })

  it('keeps its cooldown when a request from before it succeeds', () => {
    const w = world()
    const old = w.begin(one)
    const older = w.begin(one)
    for (let times = 0; times < 5; times += 1) w.attempt(one, FAILED)
    old.answered()
    old.end(OK)
    older.end(FAILED)
    assert.deepEqual(w.health.ofChannel(1), { state: 'resting', againInMs: 30_000 })
  })

  it('passes the trial to the next request if the first has no conclusive result', () => {
    const w = failing(Array.from({ length: 5 }, () => FAILED))
    w.pass(30_000)
    w.begin(one).end({ kind: 'client' })
    assert.equal(w.stateOf(one), 'trial')
  })

  it('gives the trial to the next request when the end of the first is never reported', () => {
    const w = failing(Array.from({ length: 5 }, () => FAILED))
    w.pass(30_000)
    const lost = w.begin(one)
    w.pass(119_999)
    assert.equal(w.stateOf(one), 'trying')
    w.pass(1)
    const second = w.begin(one)
    assert.equal(w.stateOf(one), 'trying')
    lost.end({ kind: 'client' })
    assert.equal(w.stateOf(one), 'trying')
    second.end(OK)
    assert.equal(w.stateOf(one), 'ready')
  })

  it('is available from the first byte of a trial, and cools down immediately if the response breaks off', () => {
    const w = failing(Array.from({ length: 5 }, () => FAILED))
    w.pass(30_000)
    const trial = w.begin(one)
    trial.answered()
    assert.equal(w.stateOf(one), 'ready')
    trial.end({ kind: 'timeout' })
    assert.deepEqual(w.health.ofChannel(1), { state: 'resting', againInMs: 60_000 })
  })

  it('records the result of an attempt once', () => {
    const w = world()
    const attempt = w.begin(one)
    for (let times = 0; times < 9; times += 1) attempt.end(FAILED)
    assert.equal(w.stateOf(one), 'ready')
  })

  it('with several keys cools down as a whole when it fails, with any key', () => {
    const several = channel(1, { keys: keyed(1, 1) })
    const w = world()
    for (const index of [0, 1, 0, 1, 0]) w.attempt(several, FAILED, index)
    assert.equal(w.stateOf(several), 'resting')
    assert.equal(w.keyOf(several, 0).state, 'ready')
  })
})

describe('a key', () => {
  it('cools down immediately when it is rejected or out of credit, and so does its channel if it is the only key', () => {
    for (const kind of ['auth', 'credit'] as const) {
      const w = failing([{ kind }])
      assert.deepEqual(w.keyOf(one), { state: 'resting', againInMs: 30_000 })
      assert.deepEqual(w.steps(one), [])
    }
  })

  it('is replaced by the other keys while it cools down', () => {
    const several = channel(1, { keys: keyed(1, 1) })
    const w = world()
    w.attempt(several, REFUSED, 0)
    for (let times = 0; times < 3; times += 1) {
      const [step] = w.steps(several)
      assert.equal(step?.key.index, 1)
      w.attempt(several, OK, 1)
    }
    w.pass(30_000)
    assert.deepEqual(
      w.steps(several).map(step => [step.key.index, step.isTrial]),
      [[0, true]],
    )
    w.begin(several, 0)
    assert.deepEqual(
      w.steps(several).map(step => [step.key.index, step.isTrial]),
      [[1, false]],
    )
  })

  it('cools down after a 429 as long as Retry-After says, at most five minutes, and 5 s without it', () => {
    const cases: [number | undefined, number][] = [
      [1_000, 1_000],
      [3_600_000, 300_000],
      [undefined, 5_000],
      [Number.NaN, 5_000],
      [-1, 5_000],
    ]
    for (const [retryAfterMs, restMs] of cases)
      assert.deepEqual(failing([{ kind: '429', retryAfterMs }]).keyOf(one), {
        state: 'resting',
        againInMs: restMs,
      })
    assert.equal(failing([{ kind: '429', retryAfterMs: 0 }]).keyOf(one).state, 'trial')
  })

  it('does not cool down longer after repeated 429s', () => {
    const w = world()
    for (let times = 0; times < 20; times += 1) {
      w.attempt(one, { kind: '429' })
      assert.equal(w.keyOf(one).againInMs, 5_000)
      w.pass(5_000)
    }
    assert.deepEqual(w.disabled, [])
    assert.equal(w.stateOf(one), 'ready')
  })

  it('that was replaced has no history, also at the same position', () => {
    const w = failing([REFUSED])
    const replaced = channel(1, { keys: [{ id: 80, index: 0, value: 'new', status: 1 }] })
    assert.equal(w.keyOf(replaced).state, 'ready')
    w.health.prune(() => replaced)
    assert.equal(w.health.size(), 0)
  })

  it('keeps its cooldown when another key is deleted and the positions shift', () => {
    const several = channel(1, { keys: keyed(1, 1) })
    const w = world()
    w.attempt(several, REFUSED, 1)
    const moved = channel(1, { keys: [{ id: 1, index: 0, value: 'key-1', status: 1 }] })
    w.health.prune(() => moved)
    assert.equal(w.keyOf(moved, 0).state, 'resting')
  })
})

describe('automatic disabling', () => {
  const refuseAtTrials = (w: ReturnType<typeof world>, on: RoutedChannel, times: number, index = 0) => {
    for (let time = 0; time < times; time += 1) {
      w.attempt(on, REFUSED, index)
      w.pass(300_000)
    }
  }

  it('happens when a key is rejected three times in a row, each time in a trial', () => {
    const w = world()
    refuseAtTrials(w, one, 2)
    assert.deepEqual(w.disabled, [])
    w.attempt(one, { kind: 'credit', detail: 'the account has no credit' })
    assert.deepEqual(w.disabled, [{ channelId: 1, reason: 'the account has no credit' }])
  })

  it('does not happen for concurrent requests that were rejected', () => {
    const w = world()
    const together = Array.from({ length: 100 }, () => w.begin(one))
    for (const attempt of together) attempt.end(REFUSED)
    assert.deepEqual(w.disabled, [])
    assert.equal(w.keyOf(one).againInMs, 30_000)
  })

  it('does not happen if another result came in between, or if the channel forbids it', () => {
    for (const between of [OK, { kind: '429' } as const]) {
      const w = world()
      refuseAtTrials(w, one, 2)
      w.attempt(one, between)
      w.pass(300_000)
      w.attempt(one, REFUSED)
      assert.deepEqual(w.disabled, [])
    }
    const w = world()
    refuseAtTrials(w, channel(1, { autoBan: false }), 9)
    assert.deepEqual(w.disabled, [])
    assert.equal(w.keyOf(one).state, 'trial')
  })

  it('never follows from failures of the channel', () => {
    const w = world()
    for (let times = 0; times < 50; times += 1) {
      w.attempt(one, FAILED)
      w.pass(300_000)
    }
    assert.deepEqual(w.disabled, [])
  })

  it('disables one key of several, and the channel only with the last', () => {
    const several = channel(1, { keys: keyed(1, 1, 2) })
    const [first, second] = several.keys
    const w = world()
    refuseAtTrials(w, several, 3, 0)
    const reason = w.disabled[0]?.reason
    assert.match(reason ?? '', /401/)
    assert.deepEqual(w.disabled, [{ channelId: 1, key: first, reason }])
    refuseAtTrials(w, several, 3, 1)
    assert.deepEqual(w.disabled.slice(1), [
      { channelId: 1, key: second, reason },
      { channelId: 1, reason },
    ])
  })

  it('is reported again until the routing table shows it', () => {
    const w = world()
    refuseAtTrials(w, one, 4)
    assert.equal(w.disabled.length, 2)
  })

  it('disables a channel without keys whose provider starts to require one', () => {
    const keyless = channel(1, { keys: [] })
    const w = world()
    refuseAtTrials(w, keyless, 3)
    assert.equal(w.disabled.length, 1)
  })

  it('starts again for a key that was enabled again', () => {
    const w = world()
    refuseAtTrials(w, one, 3)
    w.health.prune(() => channel(1, { status: 3 }))
    w.health.prune(() => one)
    assert.equal(w.keyOf(one).state, 'ready')
    w.attempt(one, REFUSED)
    assert.equal(w.keyOf(one).againInMs, 30_000)
    assert.equal(w.disabled.length, 1)
  })
})

describe('the stored health state', () => {
  it('is empty for channels that work', () => {
    const w = world()
    for (let id = 0; id < 1_000; id += 1) w.attempt(channel(id), OK)
    assert.equal(w.health.size(), 0)
  })

  it('is dropped for channels that are deleted or disabled', () => {
    const w = world()
    const channels = [1, 2, 3, 4].map(id => channel(id, { keys: keyed(1, 1) }))
    for (const each of channels) {
      w.attempt(each, FAILED)
      w.attempt(each, REFUSED)
    }
    assert.equal(w.health.size(), 12)
    const remainingChannels = new Map([
      [1, channel(1, { keys: keyed(1, 1) })],
      [2, channel(2, { keys: keyed(3, 1) })],
      [3, channel(3, { status: 2 })],
    ])
    w.health.prune(id => remainingChannels.get(id))
    // Of 1 everything, of 2 all but the disabled key, of 3 the key rotation.
    assert.equal(w.health.size(), 3 + 2 + 1)
  })

  it('is kept for a channel without keys', () => {
    const keyless = channel(1, { keys: [] })
    const w = world()
    w.attempt(keyless, REFUSED)
    w.health.prune(() => keyless)
    assert.equal(w.keyOf(keyless).state, 'resting')
  })

  it('does not extend a cooldown when the clock is set back', () => {
    let atMs = 10_000_000
    const health = createHealth({ nowMs: () => atMs, onDisable: () => undefined })
    health.begin({ channel: one, key: NO_KEY }).end({ kind: '429', retryAfterMs: 10_000 })
    atMs -= 3_600_000
    assert.equal(health.ofKey(1, NO_KEY).againInMs, 10_000)
    atMs += 10_000
    assert.equal(health.ofKey(1, NO_KEY).state, 'trial')
  })
})

describe('trials', () => {
  it('never run concurrently', () => {
    const kinds = ['ok', 'connect', '5xx', '429', 'auth', 'credit', 'client'] as const
    const event = fc.oneof(
      fc.record({ is: fc.constant('begin' as const) }),
      fc.record({ is: fc.constant('end' as const), which: fc.nat(5), kind: fc.constantFrom(...kinds) }),
      fc.record({ is: fc.constant('pass' as const), ms: fc.integer({ min: 0, max: 40_000 }) }),
    )
    fc.assert(
      fc.property(fc.array(event, { maxLength: 80 }), events => {
        const w = world()
        const running: { attempt: ReturnType<typeof w.begin>; isTrial: boolean; sinceMs: number }[] = []
        let atMs = 0
        for (const each of events) {
          if (each.is === 'pass') {
            atMs += each.ms
            w.pass(each.ms)
          } else if (each.is === 'end') {
            running.splice(each.which % Math.max(1, running.length), 1)[0]?.attempt.end({ kind: each.kind })
          } else {
            const [step] = w.steps(one)
            if (!step) continue
            running.push({ attempt: w.health.begin(step), isTrial: step.isTrial, sinceMs: atMs })
          }
          const lost = 120_000
          const trials = running.filter(other => other.isTrial && atMs - other.sinceMs < lost)
          assert.ok(trials.length <= 1, `${trials.length} trials at once`)
        }
      }),
      { numRuns: 1_000, seed: 5 },
    )
  })
})

describe('recovery from automatic disabling', () => {
  const suspects = (due: readonly { channel: RoutedChannel; key: RoutedKey }[]) =>
    due.map(each => [each.channel.id, each.key.value])

  function recovering() {
    let atMs = 0
    const recovered: Recovered[] = []
    const recovery = createRecovery({ nowMs: () => atMs, onRecover: each => recovered.push(each) })
    return {
      recovery,
      recovered,
      pass: (ms: number) => {
        atMs += ms
      },
    }
  }

  it('tests automatically disabled channels and keys, and not what an administrator disabled', () => {
    const channels = [
      channel(1, { status: 3 }),
      channel(2, { status: 2, keys: keyed(3) }),
      channel(3, { keys: keyed(1, 3, 2) }),
      channel(4, { status: 3, keys: keyed(3, 2, 3) }),
      channel(5, { status: 3, keys: [] }),
      channel(6),
    ]
    const { recovery, pass } = recovering()
    assert.deepEqual(recovery.due(channels, 99), [])
    pass(300_000)
    assert.deepEqual(suspects(recovery.due(channels, 99)), [
      [1, 'key-0'],
      [3, 'key-1'],
      [4, 'key-0'],
      [4, 'key-2'],
      [5, ''],
    ])
  })

  it('tests first after five minutes, then at intervals that double up to an hour', () => {
    const channels = [channel(1, { status: 3 })]
    const { recovery, pass } = recovering()
    recovery.due(channels, 9)
    for (const minutes of [5, 10, 20, 40, 60, 60]) {
      pass(minutes * 60_000 - 1)
      assert.deepEqual(recovery.due(channels, 9), [])
      pass(1)
      assert.equal(recovery.due(channels, 9).length, 1)
    }
  })

  it('returns no more than requested, and the others next', () => {
    const channels = [1, 2, 3].map(id => channel(id, { status: 3 }))
    const { recovery, pass } = recovering()
    recovery.due(channels, 9)
    pass(300_000)
    assert.deepEqual(suspects(recovery.due(channels, 2)), [
      [1, 'key-0'],
      [2, 'key-0'],
    ])
    assert.deepEqual(suspects(recovery.due(channels, 2)), [[3, 'key-0']])
  })

  it('enables the key, and the channel if that was disabled too', () => {
    const { recovery, recovered } = recovering()
    const both = channel(1, { status: 3, keys: keyed(3, 3) })
    const keyOnly = channel(2, { keys: keyed(1, 3) })
    const channelOnly = channel(3, { status: 3 })
    const healthy = channel(4)
    for (const [on, index] of [
      [both, 1] as const,
      [keyOnly, 1] as const,
      [channelOnly, 0] as const,
      [healthy, 0] as const,
    ])
      recovery.passed({ channel: on, key: on.keys[index] ?? NO_KEY })
    assert.deepEqual(recovered, [
      { channelId: 1, key: both.keys[1] },
      { channelId: 1 },
      { channelId: 2, key: keyOnly.keys[1] },
      { channelId: 3 },
    ])
  })

  it('resets its intervals for what was disabled again', () => {
    const down = [channel(1, { status: 3 })]
    const { recovery, pass } = recovering()
    recovery.due(down, 9)
    pass(300_000)
    recovery.due(down, 9)
    recovery.due([channel(1)], 9)
    recovery.due(down, 9)
    pass(300_000)
    assert.equal(recovery.due(down, 9).length, 1)
    recovery.passed({ channel: channel(1, { status: 3 }), key: channel(1).keys[0] ?? NO_KEY })
    recovery.due(down, 9)
    pass(300_000)
    assert.equal(recovery.due(down, 9).length, 1)
  })
})
