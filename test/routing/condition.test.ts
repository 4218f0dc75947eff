import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type ChannelCondition, mergeConditions } from '../../src/domain/channel-condition.ts'
import { conditionOf } from '../../src/routing/condition.ts'
import { createHealth } from '../../src/routing/health.ts'
import { NO_KEY, type RoutedChannel, type RoutedKey } from '../../src/routing/table.ts'

const keyed = (...statuses: readonly RoutedKey['status'][]): RoutedKey[] =>
  statuses.map((status, index) => ({ id: index, index, value: `key-${index}`, status }))

function openChannel(keys: readonly RoutedKey[]) {
  const health = createHealth({ nowMs: () => 1_000_000, onDisable: () => undefined })
  const channel = { id: 1, keys, autoBan: false } as unknown as RoutedChannel
  const limit = (key: RoutedKey, retryAfterMs: number) =>
    health.begin({ channel, key }).end({ kind: '429', retryAfterMs, detail: `429: ${key.index}` })
  return { health, channel, limit, condition: () => conditionOf(health, channel) }
}

describe('the condition of a channel (docs/reference/routing.md: Cooldown)', () => {
  it('is ready while one enabled key is', () => {
    const keys = keyed(1, 1, 2)
    const { limit, condition } = openChannel(keys)
    limit(keys[0] as RoutedKey, 9_000)
    assert.equal(condition().channel.state, 'ready')
    assert.equal(condition().channel.reason, '')
    assert.deepEqual(
      condition().keys.map(({ index }) => index),
      [0],
    )
  })

  it('is a cooldown until the first enabled key is ready, with the failure of that key', () => {
    const keys = keyed(1, 1, 2)
    const { limit, condition } = openChannel(keys)
    limit(keys[0] as RoutedKey, 9_000)
    limit(keys[1] as RoutedKey, 4_000)
    assert.deepEqual(condition().channel, { state: 'resting', againInMs: 4_000, reason: '429: 1' })
  })

  it('is a cooldown for a channel without keys too', () => {
    const { limit, condition } = openChannel([])
    limit(NO_KEY, 4_000)
    assert.deepEqual(condition(), {
      id: 1,
      channel: { state: 'resting', againInMs: 4_000, reason: '429: 0' },
      keys: [],
    })
  })

  it('is the longer cooldown if the channel and its keys cool down', () => {
    const keys = keyed(1)
    const { health, channel, limit, condition } = openChannel(keys)
    for (let i = 0; i < 5; i++)
      health.begin({ channel, key: keys[0] as RoutedKey }).end({ kind: '5xx', detail: '500' })
    limit(keys[0] as RoutedKey, 4_000)
    assert.deepEqual(condition().channel, { state: 'resting', againInMs: 30_000, reason: '500' })
  })

  it('is the worst of all workers', () => {
    const resting = (againInMs: number) => ({ state: 'resting', againInMs, reason: `${againInMs}` }) as const
    const ready = { state: 'ready', againInMs: 0, reason: '' } as const
    const workers: ChannelCondition[][] = [
      [{ id: 1, channel: ready, keys: [{ index: 1, ...resting(10) }] }],
      [{ id: 1, channel: resting(20), keys: [{ index: 0, ...resting(20) }] }],
      [{ id: 2, channel: { state: 'trial', againInMs: 0, reason: 'x' }, keys: [] }],
      [{ id: 1, channel: resting(5), keys: [{ index: 0, ...resting(5) }] }],
    ]
    assert.deepEqual(mergeConditions(workers), [
      {
        id: 1,
        channel: resting(20),
        keys: [
          { index: 0, ...resting(20) },
          { index: 1, ...resting(10) },
        ],
      },
      workers[2]?.[0],
    ])
  })
})
