import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { systemTimers } from '../../src/host/timers.ts'
import { createLeases, type LeasedBalance } from '../../src/ledger/leases.ts'
import { createLowBalance } from '../../src/ledger/low-balance.ts'

const TIMEOUT_MS = 60_000

describe('an account with a low balance', () => {
  /** A node whose store has 100 left. The test ends each call of the other nodes. */
  async function lowAccount() {
    const store = { free: 100 }
    const calls: PromiseWithResolvers<void>[] = []
    let numbers = 0
    const leases = createLeases({
      find: async ({ kind }) => ({ isUnlimited: kind === 'token' }),
      async lease(_account, want) {
        const granted = Math.min(want, store.free)
        store.free -= granted
        return granted
      },
      async returnToStore(_account, amount) {
        store.free += amount
      },
      setLease: async (_account, amount) => amount,
      outageMs: 0,
      nextChangeNumber: () => ++numbers,
      nowMs: () => 0,
    })
    const user = (await leases.open({ kind: 'user', ownerId: 1 })) as LeasedBalance
    const token = (await leases.open({ kind: 'token', ownerId: 1 })) as LeasedBalance
    let lastWork: Promise<unknown> = Promise.resolve()
    const lowBalance = createLowBalance({
      leases,
      timers: systemTimers,
      otherNodes: {
        isEmpty: async () => false,
        async returnIdle() {
          const call = Promise.withResolvers<void>()
          calls.push(call)
          await call.promise
          return { mustStillHold: async () => {} }
        },
        exclusively(_userId, work) {
          const running = lastWork.then(() => work({ mustStillHold: () => {} }))
          lastWork = running.catch(() => {})
          return running
        },
      },
    })
    const request = (amount: number) =>
      lowBalance.wait(user, token, amount, () => leases.take(user, amount), TIMEOUT_MS)
    return { store, calls, request }
  }

  it('refuses no request for which another node released quota before it arrived', async () => {
    const { store, calls, request } = await lowAccount()
    const early = request(500)
    await nextTurn()
    // The other nodes have returned what was idle. Then one of them releases 50, which it returns with the next call.
    const late = request(120)
    calls[0]?.resolve()
    assert.equal(await early, false)
    await nextTurn()
    store.free += 50
    calls[1]?.resolve()
    assert.equal(await late, true)
  })

  it('admits a request that arrives during a call of the other nodes as soon as it is covered', async () => {
    const { calls, request } = await lowAccount()
    const early = request(60)
    await nextTurn()
    const late = request(40)
    calls[0]?.resolve()
    assert.deepEqual(await Promise.all([early, late]), [true, true])
    await nextTurn()
    assert.equal(calls.length, 1)
  })

  it('decides waiting requests in order of their arrival', async () => {
    const { calls, request } = await lowAccount()
    const early = request(60)
    await nextTurn()
    const late = [request(70), request(30), request(10)]
    calls[0]?.resolve()
    assert.equal(await early, true)
    await nextTurn()
    calls[1]?.resolve()
    assert.deepEqual(await Promise.all(late), [false, true, true])
  })

  it('decides a request that arrived during a failed call with the next call', async () => {
    const { calls, request } = await lowAccount()
    const early = request(60)
    await nextTurn()
    const late = request(70)
    calls[0]?.reject(new Error('the other nodes could not be reached'))
    await assert.rejects(early, /could not be reached/)
    await nextTurn()
    calls[1]?.resolve()
    assert.equal(await late, true)
  })
})
