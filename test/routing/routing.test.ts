import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { createHealth } from '../../src/routing/health.ts'
import { PlanCursor, type PlanOptions, plan, retryAfterS } from '../../src/routing/plan.ts'
import {
  createTable,
  type RoutedAlias,
  type RoutedChannel,
  type RoutedKey,
  type RoutedModel,
  sentModel,
} from '../../src/routing/table.ts'
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

const alias = (name: string, target: string, overrides: Partial<RoutedAlias> = {}): RoutedAlias => ({
  name,
  target,
  channelIds: null,
  status: 1,
  ...overrides,
})

/** The same numbers in every run. */
function seeded(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

const ids = (channels: readonly RoutedChannel[] | undefined) => channels?.map(each => each.id)
const tierIds = (route: RoutedModel<RoutedChannel> | undefined) =>
  route?.tiers.map(tier => ids(tier.channels))

describe('the table (docs/reference/routing.md: Model names)', () => {
  it('matches a model to the channels that list it, by priority', () => {
    const table = createTable(
      [
        channel(1, { priority: 5 }),
        channel(2, { priority: 9 }),
        channel(3, { priority: 5 }),
        channel(4, { priority: -1 }),
        channel(5, { models: ['other'] }),
      ],
      [],
    )
    const route = table.resolve('m')
    assert.deepEqual(
      route?.tiers.map(tier => tier.priority),
      [9, 5, -1],
    )
    assert.deepEqual(tierIds(route), [[2], [1, 3], [4]])
    assert.deepEqual([route?.requestedModel, route?.model, route?.names], ['m', 'm', ['m']])
  })

  it('matches names in their exact case only', () => {
    const table = createTable([channel(1, { models: ['GPT'] })], [])
    assert.equal(table.resolve('gpt'), undefined)
    for (const name of ['', 'constructor', '__proto__', 'GPT ']) assert.equal(table.resolve(name), undefined)
    assert.deepEqual(table.servedModels(), ['GPT'])
  })

  it('uses a channel once that lists a model twice', () => {
    const table = createTable([channel(1, { models: ['m', 'x', 'm', 'm'] })], [])
    assert.deepEqual(tierIds(table.resolve('m')), [[1]])
  })

  it('does not contain a model that only manually disabled channels list', () => {
    const table = createTable([channel(1, { status: 2 })], [])
    assert.equal(table.resolve('m'), undefined)
    assert.deepEqual(table.servedModels(), [])
  })

  it('contains but does not list a model whose channels are auto-disabled', () => {
    const table = createTable([channel(1, { status: 3 }), channel(2, { status: 2 })], [])
    const route = table.resolve('m')
    assert.deepEqual([route?.tiers, ids(route?.disabled), route?.isListed], [[], [1], false])
    assert.deepEqual(table.servedModels(), [])
  })

  it('lists a model while any enabled channel does', () => {
    const table = createTable([channel(1, { status: 3 }), channel(2)], [])
    assert.deepEqual([tierIds(table.resolve('m')), table.resolve('m')?.isListed], [[[2]], true])
    assert.deepEqual(table.servedModels(), ['m'])
  })

  it('finds channels by id, and the vendors of a name, the preferred first', () => {
    const table = createTable(
      [channel(1, { type: 14 }), channel(2, { type: 3, priority: 1 }), channel(3, { type: 14 })],
      [alias('a', 'm', { channelIds: [3] })],
    )
    assert.equal(table.channel(2)?.type, 3)
    assert.equal(table.channel(9), undefined)
    assert.deepEqual(table.ownerTypes('m'), [3, 14])
    assert.deepEqual(table.ownerTypes('a'), [14])
    assert.deepEqual(table.ownerTypes('nothing'), [])
  })

  it('keeps all fields of a channel', () => {
    const table = createTable([{ ...channel(1), baseUrl: 'https://one.example' }], [])
    assert.equal(table.resolve('m')?.tiers[0]?.channels[0]?.baseUrl, 'https://one.example')
  })

  it('returns the same route for the same query', () => {
    const table = createTable([channel(1)], [alias('a', 'm')])
    assert.equal(table.resolve('a'), table.resolve('a'))
  })
})

describe('an alias (docs/reference/routing.md: Aliases)', () => {
  it('is served as its target, and lists the names whose price applies', () => {
    const table = createTable([channel(1)], [alias('a', 'b'), alias('b', 'm')])
    const route = table.resolve('a')
    assert.deepEqual([route?.requestedModel, route?.model, route?.names], ['a', 'm', ['a', 'b', 'm']])
    assert.deepEqual(tierIds(route), [[1]])
    assert.deepEqual(table.servedModels(), ['a', 'b', 'm'])
  })

  it('takes precedence over a listed model of its name', () => {
    const table = createTable([channel(1), channel(2, { models: ['a'] })], [alias('a', 'm')])
    assert.deepEqual(tierIds(table.resolve('a')), [[1]])
  })

  it('with a missing target hides a listed model of its name', () => {
    const table = createTable([channel(2, { models: ['a'] })], [alias('a', 'gone')])
    assert.equal(table.resolve('a'), undefined)
    assert.deepEqual(table.servedModels(), [])
  })

  it('has no effect while it is disabled, also inside a chain', () => {
    const channels = [channel(1), channel(2, { models: ['b'] })]
    const table = createTable(channels, [alias('a', 'b'), alias('b', 'm', { status: 2 })])
    assert.deepEqual(tierIds(table.resolve('a')), [[2]])
    assert.deepEqual(table.resolve('a')?.names, ['a', 'b'])
  })

  it('is limited to its channels, and in a chain to those that all of them allow', () => {
    const channels = [channel(1), channel(2), channel(3), channel(4, { status: 3 })]
    const table = createTable(channels, [
      alias('narrow', 'm', { channelIds: [1, 2] }),
      alias('narrower', 'narrow', { channelIds: [2, 3] }),
      alias('empty', 'narrow', { channelIds: [3] }),
      alias('any', 'm', { channelIds: [] }),
      alias('stopped', 'm', { channelIds: [4] }),
      alias('deleted', 'm', { channelIds: [99] }),
    ])
    assert.deepEqual(tierIds(table.resolve('narrow')), [[1, 2]])
    assert.deepEqual(ids(table.resolve('narrow')?.disabled), [])
    assert.deepEqual(tierIds(table.resolve('narrower')), [[2]])
    assert.equal(table.resolve('empty'), undefined)
    assert.deepEqual(tierIds(table.resolve('any')), [[1, 2, 3]])
    assert.deepEqual(ids(table.resolve('stopped')?.disabled), [4])
    assert.equal(table.resolve('deleted'), undefined)
    assert.deepEqual(tierIds(table.resolve('m')), [[1, 2, 3]])
    assert.deepEqual(table.servedModels(), ['any', 'm', 'narrow', 'narrower'])
  })

  it('resolves through at most five aliases, and a cycle resolves to nothing', () => {
    const chain = [0, 1, 2, 3, 4, 5].map(n => alias(`a${n}`, n === 5 ? 'm' : `a${n + 1}`))
    const table = createTable([channel(1)], [...chain, alias('x', 'y'), alias('y', 'x'), alias('z', 'z')])
    assert.equal(table.resolve('a0'), undefined)
    assert.equal(table.resolve('a1')?.names.length, 6)
    for (const name of ['x', 'y', 'z']) assert.equal(table.resolve(name), undefined)
  })
})

describe('the upstream model name', () => {
  it('is what the channel maps the model to, else the model itself', () => {
    assert.equal(sentModel({ mapping: { m: 'vendor-m' } }, 'm'), 'vendor-m')
    assert.equal(sentModel({ mapping: { n: 'x' } }, 'm'), 'm')
    for (const name of ['constructor', 'toString', '__proto__'])
      assert.equal(sentModel({ mapping: {} }, name), name)
  })

  it('follows a mapping through its own names, and ends in a cycle', () => {
    assert.equal(sentModel({ mapping: { m: 'n', n: 'o' } }, 'm'), 'o')
    assert.equal(sentModel({ mapping: { m: 'm' } }, 'm'), 'm')
    assert.equal(sentModel({ mapping: { m: 'n', n: 'm' } }, 'm'), 'n')
  })

  it('is mapped from the name the channel lists, not from the alias', () => {
    const mapped = channel(1, { mapping: { a: 'wrong', m: 'right' } })
    const { steps } = planned([mapped], { aliases: [alias('a', 'm')], asked: 'a' })
    assert.equal(steps[0]?.sentModel, 'right')
  })
})

type Given = Partial<PlanOptions<RoutedChannel>> & { aliases?: RoutedAlias[]; asked?: string }

const newHealth = (nowMs = () => 0) => createHealth({ nowMs, onDisable: () => undefined })

function options(channels: readonly RoutedChannel[], overrides: Given = {}): PlanOptions<RoutedChannel> {
  const { aliases = [], asked: requestedModel = 'm', ...rest } = overrides
  const route = createTable(channels, aliases).resolve(requestedModel)
  assert.ok(route, `no route for ${requestedModel}`)
  return { route, health: newHealth(), fullForS: () => 0, random: seeded(1), attempts: 5, ...rest }
}
const planned = (channels: readonly RoutedChannel[], overrides?: Given) => plan(options(channels, overrides))
const order = (channels: readonly RoutedChannel[], overrides?: Given) =>
  planned(channels, overrides).steps.map(step => step.channel.id)

/** How often each channel was first (or at another position) in this many plans. */
function shares(
  channels: readonly RoutedChannel[],
  runs: number,
  place = 0,
  fullForS: (channel: RoutedChannel) => number = () => 0,
): Map<number, number> {
  const random = seeded(7)
  const base = options(channels, { fullForS })
  const counts = new Map<number, number>()
  for (let run = 0; run < runs; run += 1) {
    const id = plan({ ...base, random }).steps[place]?.channel.id ?? -1
    counts.set(id, (counts.get(id) ?? 0) + 1)
  }
  return counts
}

/** Pearson's chi-squared statistic of the observed counts against the expected ones. */
function chiSquare(counts: ReadonlyMap<number, number>, expected: ReadonlyMap<number, number>): number {
  let sum = 0
  for (const [id, count] of expected) sum += ((counts.get(id) ?? 0) - count) ** 2 / count
  return sum
}

describe('a plan', () => {
  it('exhausts a tier before it continues with the next', () => {
    const channels = [
      channel(1, { priority: 1 }),
      channel(2, { priority: 2 }),
      channel(3, { priority: 2 }),
      channel(4, { priority: 3, weight: 0 }),
    ]
    const [first, second, third, fourth] = planned(channels).steps.map(step => [step.channel.id, step.tier])
    assert.deepEqual(first, [4, 0])
    assert.deepEqual(new Set([second?.[0], third?.[0]]), new Set([2, 3]))
    assert.deepEqual([second?.[1], third?.[1]], [1, 1])
    assert.deepEqual(fourth, [1, 2])
  })

  it('tries each channel once, and at most `attempts` channels', () => {
    const channels = Array.from({ length: 8 }, (_, index) => channel(index + 1))
    assert.equal(new Set(order(channels, { attempts: 50 })).size, 8)
    assert.equal(order(channels, { attempts: 50 }).length, 8)
    assert.equal(order(channels, { attempts: 3 }).length, 3)
    assert.deepEqual(order(channels, { attempts: 0 }), [])
  })

  it('divides a tier exactly at the boundaries of the weights', () => {
    const channels = [channel(1, { weight: 1 }), channel(2, { weight: 3 })]
    const firstAt = (point: number) => order(channels, { random: () => point })[0]
    assert.deepEqual([0, 0.25 - 2 ** -53, 0.25, 1 - 2 ** -53].map(firstAt), [1, 1, 2, 2])
  })

  it('chooses within a tier by weight', () => {
    // 99.9 % of fair draws stay below 13.8 with two degrees of freedom; the seed is fixed.
    const channels = [channel(1, { weight: 1 }), channel(2, { weight: 3 }), channel(3, { weight: 6 })]
    const expected = new Map([
      [1, 1_000],
      [2, 3_000],
      [3, 6_000],
    ])
    const counts = shares(channels, 10_000)
    assert.ok(chiSquare(counts, expected) < 13.8, JSON.stringify([...counts]))
  })

  it('chooses the second channel by weight among the rest', () => {
    const channels = [channel(1, { weight: 1 }), channel(2, { weight: 3 }), channel(3, { weight: 6 })]
    const weights = new Map(channels.map(each => [each.id, each.weight]))
    const expected = new Map<number, number>()
    for (const [first, a] of weights)
      for (const [second, b] of weights)
        if (first !== second)
          expected.set(second, (expected.get(second) ?? 0) + ((10_000 * a) / 10) * (b / (10 - a)))
    const counts = shares(channels, 10_000, 1)
    assert.ok(chiSquare(counts, expected) < 13.8, JSON.stringify([...counts]))
  })

  it('distributes the share of an unavailable channel to the others by their weights', () => {
    const channels = [channel(1, { weight: 1 }), channel(2, { weight: 3 }), channel(3, { weight: 600 })]
    const expected = new Map([
      [1, 2_500],
      [2, 7_500],
    ])
    const counts = shares(channels, 10_000, 0, each => (each.id === 3 ? 1 : 0))
    assert.deepEqual(new Set(counts.keys()), new Set([1, 2]))
    assert.ok(chiSquare(counts, expected) < 10.8, JSON.stringify([...counts]))
  })

  it('distributes equally if all weights are zero', () => {
    const channels = [1, 2, 3, 4].map(id => channel(id, { weight: 0 }))
    const expected = new Map(channels.map(each => [each.id, 2_500]))
    assert.ok(chiSquare(shares(channels, 10_000), expected) < 16.3)
  })

  it('uses a zero weight among others only if nothing heavier is left in its tier', () => {
    const channels = [
      channel(1, { weight: 0 }),
      channel(2, { weight: 1 }),
      channel(3, { weight: 0 }),
      channel(4, { weight: 1_000_000_000 }),
      channel(5, { priority: -1, weight: 9 }),
    ]
    for (let seed = 0; seed < 50; seed += 1) {
      const drawn = order(channels, { random: seeded(seed) })
      assert.deepEqual(new Set(drawn.slice(0, 2)), new Set([2, 4]))
      assert.deepEqual(new Set(drawn.slice(2, 4)), new Set([1, 3]))
      assert.equal(drawn[4], 5)
    }
  })

  it('ends with any random numbers', () => {
    const channels = Array.from({ length: 40 }, (_, index) => channel(index + 1, { weight: index }))
    for (const stuck of [0, 0.5, 1 - 2 ** -53]) {
      const drawn = order(channels, { random: () => stuck, attempts: 100 })
      assert.equal(new Set(drawn).size, 40)
    }
  })

  it('skips full channels and those the caller rejects, with the reason', () => {
    const channels = [channel(1), channel(2), channel(3)]
    const { steps, passedOver } = planned(channels, {
      fullForS: each => (each.id === 1 ? 12 : 0),
      skipReason: each => (each.id === 2 ? 'unpriced' : undefined),
    })
    assert.deepEqual(ids(steps.map(step => step.channel)), [3])
    assert.deepEqual(
      new Set(passedOver.map(each => JSON.stringify(each))),
      new Set([
        JSON.stringify({ channelId: 1, reason: 'full', againInMs: 12_000 }),
        JSON.stringify({ channelId: 2, reason: 'unpriced' }),
      ]),
    )
    assert.equal(retryAfterS(passedOver), 12)
  })

  it('finds the few available channels in a large tier, by their weights, and names the others once', () => {
    const channels = Array.from({ length: 300 }, (_, id) => channel(id, { weight: id === 7 ? 3 : 1 }))
    const free = new Set([7, 150, 299])
    const fullForS = (each: RoutedChannel) => (free.has(each.id) ? 0 : 1)
    const { steps, passedOver } = planned(channels, { fullForS })
    assert.deepEqual(new Set(ids(steps.map(step => step.channel))), free)
    assert.equal(steps.length, 3)
    assert.equal(new Set(passedOver.map(each => each.channelId)).size, 297)
    assert.equal(passedOver.length, 297)
    const counts = shares(channels, 2_000, 0, fullForS)
    const expected = new Map([
      [7, 1_200],
      [150, 400],
      [299, 400],
    ])
    assert.ok(chiSquare(counts, expected) < 13.8, JSON.stringify([...counts]))
  })

  it('does not count skipped channels as attempts', () => {
    const channels = [1, 2, 3].map(id => channel(id, { priority: -id }))
    assert.deepEqual(order(channels, { attempts: 1, fullForS: each => (each.id < 3 ? 1 : 0) }), [3])
  })

  it('is empty if all channels are auto-disabled, with the reason', () => {
    const { steps, passedOver } = planned([channel(1, { status: 3 })])
    assert.deepEqual(steps, [])
    assert.deepEqual(passedOver, [{ channelId: 1, reason: 'disabled' }])
    assert.equal(retryAfterS(passedOver), undefined)
  })

  it('has no side effects', () => {
    const channels = [channel(1, { keys: keyed(1, 1, 1) })]
    const health = newHealth()
    const base = options(channels, { health })
    assert.deepEqual(plan(base), plan(base))
    assert.equal(health.size(), 0)
  })
})

describe('a channel iteration', () => {
  it('chooses each step by the state at that time', () => {
    const channels = [channel(1, { priority: 2 }), channel(2, { priority: 1 }), channel(3)]
    const health = newHealth()
    const cursor = new PlanCursor(options(channels, { health }))
    assert.equal(cursor.next()?.channel.id, 1)
    const other = channels[1]
    assert.ok(other)
    for (let times = 0; times < 5; times += 1)
      health
        .begin({ channel: other, key: { id: 0, index: 0, value: 'key-0', status: 1 } })
        .end({ kind: '5xx' })
    assert.equal(cursor.next()?.channel.id, 3)
    assert.equal(cursor.next(), undefined)
  })

  it('continues if a channel turned out to be full, without counting an attempt', () => {
    const channels = [1, 2, 3, 4].map(id => channel(id, { priority: -id }))
    const cursor = new PlanCursor(options(channels, { attempts: 2 }))
    const tried: number[] = []
    for (let step = cursor.next(); step !== undefined; step = cursor.next()) {
      tried.push(step.channel.id)
      if (step.channel.id < 3) cursor.passOverFull(step.channel, 7)
    }
    assert.deepEqual(tried, [1, 2, 3, 4])
    assert.deepEqual(cursor.passedOver, [
      { channelId: 1, reason: 'full', againInMs: 7_000 },
      { channelId: 2, reason: 'full', againInMs: 7_000 },
    ])
  })

  it('draws no more channels than requested', () => {
    const channels = Array.from({ length: 100 }, (_, index) => channel(index + 1))
    let draws = 0
    const random = () => {
      draws += 1
      return 0.3
    }
    new PlanCursor(options(channels, { random })).next()
    assert.equal(draws, 1)
  })

  it('soon stops drawing from a large tier without available channels', () => {
    const channels = Array.from({ length: 1_000 }, (_, id) => channel(id))
    const next = seeded(3)
    let draws = 0
    const random = () => {
      draws += 1
      return next()
    }
    const cursor = new PlanCursor(options(channels, { random, fullForS: () => 1 }))
    assert.equal(cursor.next(), undefined)
    assert.equal(cursor.passedOver.length, 1_000)
    assert.ok(draws < 50, `${draws} draws`)
  })
})

describe('the keys of a channel', () => {
  it('rotate', () => {
    const several = channel(1, { keys: keyed(1, 1, 1) })
    const health = newHealth()
    const used = Array.from({ length: 7 }, () => {
      const [step] = planned([several], { health }).steps
      assert.ok(step)
      health.begin(step).end({ kind: 'ok' })
      return step.key.index
    })
    assert.deepEqual(used, [0, 1, 2, 0, 1, 2, 0])
  })

  it('are skipped while disabled, and their share is distributed evenly', () => {
    const several = channel(1, { keys: keyed(1, 2, 1, 3, 1) })
    const health = newHealth()
    const used = Array.from({ length: 6 }, () => {
      const [step] = planned([several], { health }).steps
      assert.ok(step)
      health.begin(step).end({ kind: 'ok' })
      return step.key.index
    })
    assert.deepEqual(used, [0, 2, 4, 0, 2, 4])
  })

  it('that are all disabled make their channel skipped', () => {
    const { steps, passedOver } = planned([channel(1, { keys: keyed(2, 3) }), channel(2)])
    assert.deepEqual(ids(steps.map(step => step.channel)), [2])
    assert.deepEqual(planned([channel(1, { keys: keyed(2, 3) })]).passedOver, [
      { channelId: 1, reason: 'no_key' },
    ])
    assert.ok(passedOver.every(each => each.channelId === 1))
  })

  it('that cool down make their channel skipped until the first is ready', () => {
    const several = channel(1, { keys: keyed(1, 1) })
    const health = newHealth()
    const [slow, fast] = several.keys
    assert.ok(slow && fast)
    health.begin({ channel: several, key: slow }).end({ kind: '429', retryAfterMs: 60_000 })
    assert.deepEqual(
      planned([several], { health }).steps.map(step => step.key.index),
      [1],
    )
    health.begin({ channel: several, key: fast }).end({ kind: '429', retryAfterMs: 6_500 })
    const { steps, passedOver } = planned([several], { health })
    assert.deepEqual(steps, [])
    assert.deepEqual(passedOver, [{ channelId: 1, reason: 'resting', againInMs: 6_500 }])
    assert.equal(retryAfterS(passedOver), 7)
  })

  it('may be none, if the vendor requires none', () => {
    const [step] = planned([channel(1, { keys: [] })]).steps
    assert.equal(step?.key.value, '')
  })
})

describe('every plan', () => {
  const arbitrary = fc.record({
    channels: fc.array(
      fc.record({
        priority: fc.integer({ min: -2, max: 2 }),
        weight: fc.oneof(fc.constant(0), fc.nat(10), fc.nat(1_000_000_000)),
        status: fc.constantFrom<1 | 2 | 3>(1, 1, 1, 2, 3),
        statuses: fc.array(fc.constantFrom<1 | 2 | 3>(1, 1, 2, 3), { maxLength: 3 }),
        isFull: fc.boolean(),
        failures: fc.nat(6),
      }),
      { minLength: 1, maxLength: 12 },
    ),
    attempts: fc.nat(15),
    seed: fc.nat(),
  })

  it('tries only enabled channels that are available and not cooling down, none twice, tier by tier, and names all others', () => {
    fc.assert(
      fc.property(arbitrary, ({ channels: channelSpecs, attempts, seed }) => {
        const channels = channelSpecs.map(({ priority, weight, status, statuses }, index) =>
          channel(index, { priority, weight, status, keys: keyed(...statuses) }),
        )
        const route = createTable(channels, []).resolve('m')
        if (route === undefined) return assert.ok(channels.every(each => each.status === 2))

        const health = newHealth()
        for (const [index, { failures }] of channelSpecs.entries())
          for (let times = 0; times < failures; times += 1)
            health
              .begin({ channel: channel(index), key: { id: 0, index: 0, value: '', status: 1 } })
              .end({ kind: '5xx' })
        const isFree = (each: RoutedChannel) => !channelSpecs[each.id]?.isFull
        const { steps, passedOver } = plan({
          route,
          health,
          attempts,
          random: seeded(seed),
          fullForS: each => (isFree(each) ? 0 : 1),
        })

        assert.ok(steps.length <= attempts)
        assert.equal(new Set(steps.map(step => step.channel.id)).size, steps.length)
        for (const { channel: each, key } of steps) {
          assert.equal(each.status, 1)
          assert.equal(key.status, 1)
          assert.ok(isFree(each) && (channelSpecs[each.id]?.failures ?? 0) < 5)
        }
        for (const [index, step] of steps.entries()) {
          const before = steps[index - 1]
          if (before === undefined) continue
          assert.ok(before.tier <= step.tier && before.channel.priority >= step.channel.priority)
          if (before.tier === step.tier) assert.ok(before.channel.weight > 0 || step.channel.weight === 0)
        }
        if (steps.length < attempts) {
          const candidateChannels = channels.filter(each => each.status !== 2)
          assert.equal(steps.length + passedOver.length, candidateChannels.length)
        }
      }),
      { numRuns: 1_000, seed: 11 },
    )
  })
})
