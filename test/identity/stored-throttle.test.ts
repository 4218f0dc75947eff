import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { createStoredThrottle, type FailureBucket, type FailureStore } from '../../src/identity/throttle.ts'

/** A store in memory that counts its transactions. */
function createStore() {
  const buckets = new Map<string, FailureBucket>()
  const counts = { calls: 0, running: 0, mostRunning: 0 }
  const clock = { ms: 0 }
  const store: FailureStore = {
    async change(keys, work) {
      counts.calls += 1
      counts.running += 1
      counts.mostRunning = Math.max(counts.mostRunning, counts.running)
      await nextTurn()
      const after = work(
        keys.map(key => buckets.get(key)),
        clock.ms,
      )
      for (const [index, key] of keys.entries()) {
        const bucket = after[index]
        if (bucket) buckets.set(key, bucket)
        else buckets.delete(key)
      }
      counts.running -= 1
    },
  }
  return { store, counts, clock }
}

describe('failed sign-ins that are counted in a store', () => {
  it('use one connection at a time, and none while the caller is known to be blocked', async () => {
    const { store, counts, clock } = createStore()
    const throttle = createStoredThrottle(store, () => clock.ms, assert.fail)
    const flood = () => Promise.all(Array.from({ length: 500 }, () => throttle.attempt('root', '192.0.2.1')))
    const waits = await flood()
    assert.equal(waits.filter(seconds => seconds === 0).length, 5)
    assert.equal(counts.mostRunning, 1)
    const calls = counts.calls
    assert.ok(calls <= 10, `${calls} transactions`)
    assert.ok((await flood()).every(seconds => seconds > 0))
    assert.equal(counts.calls, calls)
    assert.equal(await throttle.attempt('other', '198.51.100.1'), 0)
    clock.ms += 2_000
    assert.equal(await throttle.attempt('root', '192.0.2.1'), 0)
  })
})
