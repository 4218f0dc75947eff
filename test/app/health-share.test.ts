import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { createHealthShare } from '../../src/app/health-share.ts'
import type { HealthEvent } from '../../src/domain/channel-condition.ts'
import { until } from '../support/process.ts'

/** The most that a notification of PostgreSQL can have. */
const MAX_NOTIFICATION_BYTES = 8_000

describe('the health of channels that is sent to other nodes', () => {
  it('fits into notifications, in whatever language providers explain failures', async () => {
    const batches: (readonly HealthEvent[])[] = []
    const share = createHealthShare({
      send: async events => void batches.push(events),
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
})
