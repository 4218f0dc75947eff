import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { cooldownTarget, createInvalidation } from '../../src/app/invalidation.ts'
import { ALL_CONFIRMED } from '../../src/domain/node.ts'
import { NO_KEY, type RoutedChannel } from '../../src/routing/table.ts'

/** Caches that record what is invalidated; `fails` makes the store unavailable. */
function openCaches() {
  const calls: string[] = []
  const state = { fails: false, channels: new Map<number, RoutedChannel>() }
  const note = async (call: string) => {
    if (state.fails) throw new Error('the store is away')
    calls.push(call)
  }
  const invalidation = createInvalidation<RoutedChannel>({
    callers: {
      forgetToken: id => calls.push(`token ${id}`),
      forgetUser: id => calls.push(`user ${id}`),
      forgetAll: () => calls.push('all callers'),
    },
    ledger: {
      refresh: ({ kind, ownerId }) => note(`balance of ${kind} ${ownerId}`),
      refreshAll: () => note('all balances'),
    },
    catalog: {
      table: () => {
        const channels = new Map(state.channels)
        return { channel: id => channels.get(id) }
      },
      refreshChannels: ids => note(`channels ${ids}`),
      refreshAllChannels: () => note('all channels'),
      refreshAliases: () => note('aliases'),
      refreshCanaries: () => note('canaries'),
      refreshPrices: () => note('prices'),
      refreshSettings: () => note('settings'),
    },
    health: {
      forgetChannel: id => calls.push(`forget channel ${id}`),
      prune: () => calls.push('prune'),
      endCooldown: ({ channel, key }) => calls.push(`end cooldown ${channel.id}/${key.index}`),
    },
    isSameUpstream: () => false,
    broadcast: async targets => void calls.push(`others ${targets}`),
    confirm: async () => ALL_CONFIRMED,
    onApplied: positions => calls.push(`applied ${positions}`),
    activatePrices: () => note('activate'),
    onFailure: error => calls.push((error as Error).message),
  })
  return { ...invalidation, calls, state }
}

const channel = (id: number) => ({ id, keys: [NO_KEY] }) as unknown as RoutedChannel

describe('invalidation', () => {
  it('reloads each kind of target once, on this worker and on the others', async () => {
    const { announce, calls } = openCaches()
    await announce(['token:7', 'token:7', 'user:3', 'alias:1', 'price:x', 'settings', 'unknown:1'])
    assert.deepEqual(calls.toSorted(), [
      'aliases',
      'balance of token 7',
      'balance of user 3',
      'others token:7,token:7,user:3,alias:1,price:x,settings,unknown:1',
      'prices',
      'settings',
      'token 7',
      'user 3',
    ])
  })

  it('resets the health of a channel when its upstream has changed', async () => {
    const { invalidate, calls, state } = openCaches()
    state.channels.set(5, channel(5))
    await invalidate(['channel:5', 'channel:6'])
    assert.deepEqual(calls, ['channels 5,6', 'forget channel 5', 'prune'])
  })

  it('ends the cooldown of a channel and key that were tested', async () => {
    const { invalidate, calls, state } = openCaches()
    state.channels.set(5, channel(5))
    await invalidate([cooldownTarget(5, NO_KEY), 'cooldown:9:0'])
    assert.deepEqual(calls, [`end cooldown 5/${NO_KEY.index}`])
  })

  it('retries targets that the store could not read, until it can', async () => {
    const { invalidate, refresh, calls, state } = openCaches()
    state.fails = true
    await assert.rejects(invalidate(['alias:1']))
    await refresh()
    assert.deepEqual(calls, ['the store is away'])
    state.fails = false
    await refresh()
    await refresh()
    assert.deepEqual(calls.slice(1), ['aliases', 'activate', 'prices', 'activate', 'prices'])
  })
})

describe('a store that has lost changes', () => {
  it('is read again completely with the next refresh', async () => {
    const { calls, invalidateAll, refresh } = openCaches()
    invalidateAll()
    await refresh()
    assert.deepEqual(calls.slice(0, 7), [
      'all callers',
      'all balances',
      'settings',
      'aliases',
      'prices',
      'all channels',
      'prune',
    ])
  })
})
