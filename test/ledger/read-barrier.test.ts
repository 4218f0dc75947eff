import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { createReadBarrier } from '../../src/ledger/read-barrier.ts'

const ACCOUNT = { kind: 'user', ownerId: 1 } as const

function openBarrier(others: () => Promise<boolean>, maxWaitMs?: number) {
  const calls: string[] = []
  const barrier = createReadBarrier({
    ledger: {
      flushAndReturn: async ({ ownerId }) => void calls.push(`return ${ownerId}`),
      barrier: async () => void calls.push('apply'),
    },
    others: { flushAndReturn: others, barrier: others },
    ...(maxWaitMs !== undefined && { maxWaitMs }),
  })
  return { ...barrier, calls }
}

describe('the read barrier', () => {
  it('returns the leases of the account that is read, and applies all settlements if none is named', async () => {
    const { catchUp, calls } = openBarrier(async () => true)
    assert.equal(await catchUp(ACCOUNT), true)
    assert.equal(await catchUp(), true)
    assert.deepEqual(calls, ['return 1', 'apply', 'apply', 'apply'])
  })

  it('returns false when another worker takes too long', async () => {
    const { promise, resolve } = Promise.withResolvers<boolean>()
    const { catchUp } = openBarrier(() => promise, 1)
    assert.equal(await catchUp(ACCOUNT), false)
    resolve(true)
  })

  it('returns false when a node of another machine does not respond', async () => {
    assert.equal(await openBarrier(async () => false).catchUp(ACCOUNT), false)
  })

  it('fails when a worker fails, and ignores a failure after the time limit', async () => {
    await assert.rejects(openBarrier(() => Promise.reject(new Error('gone'))).catchUp())
    const { promise, reject } = Promise.withResolvers<boolean>()
    const { catchUp } = openBarrier(() => promise, 1)
    assert.equal(await catchUp(), false)
    reject(new Error('gone'))
    await new Promise(setImmediate)
  })
})
