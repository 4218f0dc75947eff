import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { createHealthShare } from '../../src/app/health-share.ts'
import type { HealthEvent } from '../../src/domain/channel-condition.ts'
import { until } from '../support/process.ts'

/** The most that a notification of PostgreSQL can have. */
const MAX_NOTIFICATION_BYTES = 8_000

describe('the health of channels that is sent to other nodes', () => {
  it('fits into notifications, in whatever language providers explain failures', async () => {
    const batches: (readonly HealthEvent[])[] = []
    const share = createHealthShare({
      send: async events => {
        batches.push(events)
        return true
      },
      onFailure: assert.fail,
    })
    for (let channelId = 1; channelId <= 40; channelId++)
      share.share({
        channelId,
        cooldown: { forMs: 1_000, reason: '服务暂时不可用'.repeat(100), strikes: 1, cooldowns: 1 },
      })
    await until('all events to be sent', () => (batches.flat().length === 40 ? true : undefined))
    for (const batch of batches)
      assert.ok(Buffer.byteLength(JSON.stringify(batch)) < MAX_NOTIFICATION_BYTES - 1_000)
    share.close()
  })

  it('is taken over once, however often it is sent, and again if it has changed', async () => {
    const batches: (readonly HealthEvent[])[] = []
    const origin = () =>
      createHealthShare({
        send: async events => {
          batches.push(events)
          return true
        },
        onFailure: assert.fail,
      })
    const [one, restarted, receiver] = [origin(), origin(), origin()]
    const event = { channelId: 1, cooldown: { forMs: 1_000, reason: '429', strikes: 1, cooldowns: 1 } }
    for (const [count, share] of [one, one, restarted].entries()) {
      share.share(event)
      await until('the event to be sent', () => (batches.length > count ? true : undefined))
    }
    const fresh = [...batches, ...batches].map(batch => receiver.unseen(batch).length)
    assert.deepEqual(fresh, [1, 1, 1, 0, 0, 0])
    // From a node of an older version.
    assert.deepEqual([receiver.unseen([event]), receiver.unseen([event])], [[event], [event]])
    for (const share of [one, restarted, receiver]) share.close()
  })

  it('is sent again until all nodes have received it, for the rest of a cooldown, and not if it has changed', async () => {
    const events: HealthEvent[] = []
    const timers: { readonly ms: number; run(): void }[] = []
    let nowMs = 0
    const replies = [new Error('away'), false, false, true]
    const share = createHealthShare({
      async send(batch) {
        events.push(...batch)
        const reply = replies.shift()
        if (reply instanceof Error) throw reply
        return reply === true
      },
      onFailure: () => {},
      monotonicMs: () => nowMs,
      timers: {
        after(ms, run) {
          timers.push({ ms, run })
          return () => {}
        },
      },
    })
    const cooldown = { reason: '429', strikes: 1, cooldowns: 1 }
    const pass = async () => {
      const timer = timers.shift() ?? assert.fail('nothing is sent again')
      nowMs += timer.ms
      timer.run()
      await setImmediate()
    }
    share.share({ channelId: 1, cooldown: { ...cooldown, forMs: 10_000 } })
    share.share({ channelId: 2, cooldown: { ...cooldown, forMs: 400 } })
    await pass()
    await pass()
    share.share({ channelId: 1, cooldown: { ...cooldown, forMs: 20_000 } })
    // Neither the first event of channel 1, which has changed, nor that of channel 2, which is over.
    await pass()
    await pass()
    await pass()
    assert.deepEqual(
      events.map(event => [event.channelId, event.cooldown?.forMs]),
      [
        [1, 9_950],
        [2, 350],
        [1, 9_750],
        [2, 150],
        [1, 19_550],
        [1, 19_350],
      ],
    )
    assert.equal(timers.length, 0)
  })
})
