import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { systemTimers, type Timers } from '../../src/host/timers.ts'
import type { Books } from '../../src/ledger/books.ts'
import { createJournal } from '../../src/ledger/journal.ts'
import { createLeases } from '../../src/ledger/leases.ts'
import { type Hold, type HoldRequest, openLedger } from '../../src/ledger/ledger.ts'
import type { OtherNodes } from '../../src/ledger/low-balance.ts'
import { createBooks } from '../../src/store/books/books.ts'
import { ENGINES, suiteGateway } from '../support/gateway.ts'
import { USAGE } from '../support/usage.ts'

/** A node that does not share its accounts with other nodes. */
const ALONE: OtherNodes = {
  isEmpty: async () => true,
  returnIdle: async () => ({ mustStillHold: async () => {} }),
  exclusively: (_userId, work) => work({ mustStillHold: () => {} }),
}

const UNIT = 2_000

describe('a lease', () => {
  const account = { kind: 'user', ownerId: 1 } as const

  /** A balance with a lease, and a store that confirms a return only when the test settles it. */
  async function leasedBalance({ outageMs = 0 } = {}) {
    const returned: { amount: number; number: number; settle: PromiseWithResolvers<void> }[] = []
    const requested: number[] = []
    const clock = { nowMs: 0 }
    let numbers = 0
    const leases = createLeases({
      find: async () => ({ isUnlimited: false }),
      lease: async (_account, want) => {
        requested.push(want)
        await nextTurn()
        return Math.min(want, 1_000_000)
      },
      returnToStore: (_account, amount, number) => {
        const settle = Promise.withResolvers<void>()
        returned.push({ amount, number, settle })
        return settle.promise
      },
      setLease: async (_account, amount) => amount,
      outageMs,
      nextChangeNumber: () => ++numbers,
      nowMs: () => clock.nowMs,
    })
    const balance = await leases.open(account)
    assert.ok(balance)
    await leases.requestMore(balance, 5)
    return { leases, balance, returned, requested, clock }
  }

  it('that is being returned is awaited by every call that returns it', async () => {
    const { leases, returned } = await leasedBalance()
    const first = leases.returnIdle(account)
    let isBack = false
    const second = leases.returnIdle(account).then(() => {
      isBack = true
    })
    await nextTurn()
    assert.deepEqual([isBack, returned.length], [false, 1])
    returned[0]?.settle.resolve()
    await Promise.all([first, second])
    assert.equal(returned.length, 1)
  })

  it('that is being returned is awaited before more is leased, because until then the store has nothing', async () => {
    const { leases, balance, returned, requested } = await leasedBalance()
    const before = requested.length
    const idleReturn = leases.returnIdle(account)
    await nextTurn()
    const more = leases.requestMore(balance, 1)
    const filled = leases.fill(balance, 1, Promise.resolve())
    await nextTurn()
    assert.equal(requested.length, before)
    returned[0]?.settle.resolve()
    await Promise.all([idleReturn, more, filled])
    assert.ok(requested.length > before)
  })

  it('is not evicted while a request leases more, even after a long idle time', async () => {
    const { leases, balance, returned, clock } = await leasedBalance()
    clock.nowMs = 120_000
    const swept = leases.sweep()
    await nextTurn()
    assert.equal(leases.open(account), balance)
    const more = leases.requestMore(balance, 5)
    returned[0]?.settle.resolve()
    await Promise.all([swept, more])
    assert.equal(leases.open(account), balance)
    assert.ok(leases.covers(balance, 5))
  })

  it('is not evicted while a request holds 0, which may lease more later', async () => {
    const { leases, balance, returned, clock } = await leasedBalance()
    const sweep = async () => {
      const sweeping = leases.sweep()
      await nextTurn()
      for (const { settle } of returned) settle.resolve()
      await sweeping
    }
    const hold = { leased: leases.take(balance, 0), version: balance.version }
    clock.nowMs = 120_000
    await sweep()
    assert.equal(leases.open(account), balance)
    hold.leased += leases.extend(balance, 3)
    leases.end(balance, { ...hold, amount: 3 }, 2)
    clock.nowMs = 240_000
    await sweep()
    assert.notEqual(await leases.open(account), balance)
    assert.equal(balance.free, 0)
  })

  it('covers what its account uses in an outage of the store, and is kept as long', async () => {
    const { leases, balance, returned, requested, clock } = await leasedBalance({ outageMs: 60_000 })
    const request = () => {
      const hold = { amount: 5, leased: leases.take(balance, 5), version: balance.version }
      leases.end(balance, hold, 3)
    }
    await leases.sweep()
    for (let second = 1; second <= 20; second++) {
      clock.nowMs = second * 1_000
      request()
      await leases.sweep()
      await nextTurn()
    }
    // 3 a second are 180 in a minute; holds of 5 need their part beside it.
    assert.ok(balance.free >= 180 * 1.5 + 16 * 5, String(balance.free))
    assert.ok(balance.free <= 180 * 2 + 16 * 5 + 20, String(balance.free))
    const grants = requested.length
    for (let second = 21; second <= 30; second++) {
      clock.nowMs = second * 1_000
      request()
      await leases.sweep()
      await nextTurn()
    }
    assert.ok(requested.length - grants <= 1, 'the lease is enlarged rarely')
    clock.nowMs += 59_000
    await leases.sweep()
    assert.equal(returned.length, 0)
    clock.nowMs += 2_000
    const sweeping = leases.sweep()
    await nextTurn()
    returned[0]?.settle.resolve()
    await sweeping
    assert.equal(balance.free, 0)
  })

  it('is not enlarged for an account that is idle longer than an outage lasts', async () => {
    const { leases, balance, returned, requested, clock } = await leasedBalance({ outageMs: 5_000 })
    for (let second = 1; second <= 10; second++) {
      clock.nowMs = second * 1_000
      const hold = { amount: 5, leased: leases.take(balance, 5), version: balance.version }
      leases.end(balance, hold, 3)
      await leases.sweep()
      await nextTurn()
    }
    const grants = requested.length
    for (const nowMs of [16_000, 16_500, 17_000]) {
      clock.nowMs = nowMs
      const sweeping = leases.sweep()
      await nextTurn()
      await nextTurn()
      for (const { settle } of returned) settle.resolve()
      await sweeping
    }
    assert.deepEqual([requested.length, balance.free, returned.length], [grants, 0, 1])
  })

  it('is not enlarged again for a while after another node needed it', async () => {
    const { leases, balance, returned, requested, clock } = await leasedBalance({ outageMs: 60_000 })
    await leases.sweep()
    const recall = leases.returnIdleForPeer(account)
    await nextTurn()
    returned[0]?.settle.resolve()
    await recall
    clock.nowMs = 5_000
    await leases.fill(balance, 5, Promise.resolve())
    const hold = { amount: 5, leased: leases.take(balance, 5), version: balance.version }
    leases.end(balance, hold, 5)
    const grants = requested.length
    await leases.sweep()
    await nextTurn()
    assert.equal(requested.length, grants)
    clock.nowMs = 17_000
    await leases.sweep()
    await nextTurn()
    assert.equal(requested.length, grants + 1)
  })

  it('that the store fails to grant rejects the waiting request and nothing else', async () => {
    const { leases, balance, returned } = await leasedBalance()
    const idleReturn = assert.rejects(leases.returnIdle(account), /unreachable/)
    await nextTurn()
    const filled = assert.rejects(leases.fill(balance, 1, Promise.resolve()), /still unreachable/)
    returned[0]?.settle.reject(new Error('unreachable'))
    await idleReturn
    await nextTurn()
    returned[1]?.settle.reject(new Error('still unreachable'))
    // An unhandled rejection would fail the test, as it would end the process.
    await filled
    await nextTurn()
    assert.equal(balance.leaseRequest, undefined)
  })

  it('that is returned while a request waits for it does not make the account look exhausted', async () => {
    const { leases, balance, returned } = await leasedBalance()
    leases.take(balance, balance.free)
    const more = leases.requestMore(balance, Number.MAX_SAFE_INTEGER)
    const idleReturn = leases.returnIdle(account)
    await nextTurn()
    await nextTurn()
    returned[0]?.settle.resolve()
    await idleReturn
    const isExhausted = await more
    assert.deepEqual([isExhausted(), leases.covers(balance, 1)], [false, false])
  })

  it('is returned when its account changes, including amounts that running requests release later', async () => {
    const { leases, balance, returned, requested } = await leasedBalance()
    const hold = { amount: 5, leased: leases.take(balance, 5), version: balance.version }
    const refreshed = leases.refresh(account)
    await nextTurn()
    assert.deepEqual([balance.free, returned[0]?.amount], [0, 75])
    returned[0]?.settle.resolve()
    await refreshed
    leases.end(balance, hold, 2)
    assert.ok(!leases.covers(balance, 1), 'the remainder of the hold is not spendable')
    const before = requested.length
    const more = leases.requestMore(balance, 1)
    await nextTurn()
    assert.deepEqual(
      [returned[1]?.amount, requested.length],
      [3, before],
      'the remainder is returned before more is leased',
    )
    returned[1]?.settle.resolve()
    await more
    assert.deepEqual([balance.surplus, requested.length], [0, before + 1])
  })

  it('takes the unlimited state from the newest refresh if an older one reads the store more slowly', async () => {
    const reads: ((row: { isUnlimited: boolean }) => void)[] = []
    const leases = createLeases({
      find: () => new Promise(resolve => reads.push(resolve)),
      lease: async (_account, want) => want,
      returnToStore: async () => {},
      setLease: async (_account, amount) => amount,
      outageMs: 0,
      nextChangeNumber: () => 1,
      nowMs: () => 0,
    })
    const opened = leases.open(account)
    reads[0]?.({ isUnlimited: false })
    const balance = await opened
    assert.ok(balance)

    const stale = leases.refresh(account)
    await nextTurn()
    const newest = leases.refresh(account)
    await nextTurn()
    reads[2]?.({ isUnlimited: false })
    await newest
    reads[1]?.({ isUnlimited: true })
    await stale
    assert.equal(balance.isUnlimited, false, 'the older read does not count')

    const first = leases.refresh(account)
    await nextTurn()
    const second = leases.refresh(account)
    await nextTurn()
    // The first refresh ends while the second one still reads: the second one sets the state.
    reads[3]?.({ isUnlimited: false })
    await first
    reads[4]?.({ isUnlimited: true })
    await second
    assert.equal(balance.isUnlimited, true, 'the newest read always counts')
  })

  it('whose return was not acknowledged is returned again with the same number, and cannot be spent', async () => {
    const { leases, balance, returned } = await leasedBalance()
    const first = assert.rejects(leases.returnIdle(account), /unreachable/)
    const second = leases.returnIdle(account)
    await nextTurn()
    returned[0]?.settle.reject(new Error('unreachable'))
    await first
    await nextTurn()
    const changes = returned.map(({ amount, number }) => ({ amount, number }))
    assert.deepEqual(changes, [changes[0], changes[0]])
    assert.ok(!leases.covers(balance, 1))
    returned[1]?.settle.resolve()
    await second
    assert.equal(balance.free, 0)
  })
})

for (const engine of ENGINES) {
  describe(`the ledger on ${engine}`, () => {
    const gateway = suiteGateway({ engine })
    let dir: string
    let requests = 0
    before(async () => {
      dir = mkdtempSync(join(tmpdir(), 'sluice-ledger-'))
    })
    after(async () => {
      rmSync(dir, { recursive: true, force: true })
    })

    const openJournal = (node: string) =>
      createJournal({
        dir: node,
        fullSync: false,
        nowMs: Date.now,
        onReserveReleased: () => {},
        onSyncFailure: () => {},
      })

    const nodeDir = () => mkdtempSync(join(dir, 'node-'))

    function open(node: string, change: Partial<Books> = {}, timers: Timers = systemTimers) {
      return openLedger({
        nodeId: node.slice(-6),
        journal: openJournal(node),
        books: { ...createBooks(gateway.db, engine), ...change },
        otherNodes: ALONE,
        outageMs: 0,
        nowMs: Date.now,
        timers,
        onFailure: () => {},
        onHealed: () => {},
      })
    }

    /** A user and a token with these quotas; undefined is unlimited. */
    async function newPayer(userUnits: number | undefined, tokenUnits: number | undefined) {
      const user = await gateway.createUser({ quota: userUnits ?? 0 })
      if (userUnits === undefined)
        await gateway.api('PUT', '/api/user/', { id: user.id, unlimited_quota: true })
      const { body } = await gateway.api(
        'POST',
        '/api/token/',
        tokenUnits === undefined
          ? { name: 't', unlimited_quota: true }
          : { name: 't', remain_quota: tokenUnits },
        { token: user.accessToken },
      )
      return { userId: user.id, tokenId: body.data.id as number, accessToken: user.accessToken }
    }
    type Payer = Awaited<ReturnType<typeof newPayer>>

    const requestOf = ({ userId, tokenId }: Payer, units: number): HoldRequest => ({
      rid: `req_${++requests}`,
      userId,
      tokenId,
      tokenName: 't',
      model: 'gpt-4o-mini',
      amount: units * UNIT,
      isStream: false,
      address: '',
    })

    const quotasOf = async ({ tokenId, accessToken }: Payer) => {
      const user = await gateway.api('GET', '/api/user/self', undefined, { token: accessToken })
      const token = await gateway.api('GET', `/api/token/${tokenId}`, undefined, { token: accessToken })
      return {
        user: user.body.data.quota,
        userUsed: user.body.data.used_quota,
        requests: user.body.data.request_count,
        token: token.body.data.remain_quota,
        tokenUsed: token.body.data.used_quota,
      }
    }
    const settle = (hold: Hold, units: number) =>
      hold.settle({ channelId: 1, cost: units * UNIT, log: USAGE })
    const mustVerify = async () => {
      const { ok, lines } = await gateway.operations.verify({})
      assert.ok(ok, lines.join('\n'))
    }

    it('charges user and token the same, and releases the rest of the hold', async () => {
      const ledger = await open(nodeDir())
      const payer = await newPayer(100, 50)
      const hold = await ledger.hold(requestOf(payer, 40))
      await hold.attempt(1, UNIT)
      assert.equal(ledger.heldOf({ kind: 'user', ownerId: payer.userId }), 40 * UNIT)
      assert.equal(await settle(hold, 7), 7 * UNIT)
      await ledger.barrier()
      assert.deepEqual(await quotasOf(payer), { user: 93, userUsed: 7, requests: 1, token: 43, tokenUsed: 7 })
      await ledger.close()
      await mustVerify()
    })

    it('refuses a request that user or token cannot cover, and holds nothing for it', async () => {
      const ledger = await open(nodeDir())
      const refusal = { code: 'insufficient_quota' }
      const poorToken = await newPayer(100, 5)
      await assert.rejects(async () => ledger.hold(requestOf(poorToken, 6)), refusal)
      const poorUser = await newPayer(5, undefined)
      await assert.rejects(async () => ledger.hold(requestOf(poorUser, 6)), refusal)
      assert.equal(ledger.heldOf({ kind: 'user', ownerId: poorUser.userId }), 0)
      await settle(await ledger.hold(requestOf(poorUser, 5)), 5)
      await ledger.close()
      assert.equal((await quotasOf(poorUser)).user, 0)
    })

    it('accepts exactly as many of a thousand concurrent requests as the quota covers', async () => {
      const ledger = await open(nodeDir())
      const payer = await newPayer(37 * 3, undefined)
      const outcomes = await Promise.allSettled(
        Array.from({ length: 1_000 }, async () => settle(await ledger.hold(requestOf(payer, 3)), 3)),
      )
      assert.equal(outcomes.filter(({ status }) => status === 'fulfilled').length, 37)
      await ledger.close()
      assert.deepEqual(await quotasOf(payer).then(({ user, requests: count }) => ({ user, count })), {
        user: 0,
        count: 37,
      })
      await mustVerify()
    })

    it('charges cost above the hold to the remaining quota, and records the rest as overrun', async () => {
      const ledger = await open(nodeDir())
      const payer = await newPayer(10, undefined)
      assert.equal(await settle(await ledger.hold(requestOf(payer, 4)), 6), 6 * UNIT)
      assert.equal(await settle(await ledger.hold(requestOf(payer, 2)), 9), 4 * UNIT)
      await ledger.close()
      assert.equal((await quotasOf(payer)).user, 0)
      const row = await gateway.db
        .selectFrom('logs')
        .select('other')
        .where('user_id', '=', payer.userId)
        .where('other', 'like', '%overrun%')
        .executeTakeFirst()
      assert.equal(JSON.parse(row?.other ?? '{}').overrun, 5 * UNIT)
    })

    /** Leases only after `answer`, and until then as many as it is asked for wait. */
    function heldBackLeases() {
      const books = createBooks(gateway.db, engine)
      const gate = Promise.withResolvers<void>()
      let isHeldBack = false
      return {
        async lease(...args: Parameters<Books['lease']>): Promise<number> {
          if (isHeldBack) await gate.promise
          return books.lease(...args)
        },
        holdBack() {
          isHeldBack = true
        },
        answer: gate.resolve,
      }
    }

    for (const [name, quota, extension, cost, paid] of [
      [
        'is settled for more than it holds is charged its cost, and nothing for the extension',
        23,
        20,
        20,
        20,
      ],
      ['is settled for what its lease covers holds nothing afterwards', 10_000, 50, 15, 15],
      ['is settled for what it holds holds nothing afterwards', 10_000, 50, 1, 1],
      ['costs more than there is pays all that there is', 23, 20, 30, 23],
    ] as const)
      it(`a stream whose extension still waits for a lease and that ${name}`, async () => {
        const { holdBack, answer, lease } = heldBackLeases()
        const ledger = await open(nodeDir(), { lease })
        const payer = await newPayer(quota, undefined)
        const user = { kind: 'user', ownerId: payer.userId } as const
        const hold = await ledger.hold(requestOf(payer, 1))
        holdBack()
        const extending = hold.extend(extension * UNIT)
        const settling = settle(hold, cost)
        answer()
        assert.equal(await settling, paid * UNIT)
        await extending
        assert.equal(ledger.heldOf(user), 0)
        await ledger.barrier()
        assert.equal(await hold.extend(5 * UNIT), true)
        assert.equal(ledger.heldOf(user), 0)
        await ledger.close()
        const { user: remainingQuota, userUsed } = await quotasOf(payer)
        assert.deepEqual([remainingQuota, userUsed], [quota - paid, paid])
        const { leases } = await gateway.db
          .selectFrom('leases')
          .select(row => row.fn.sum<number>('amount').as('leases'))
          .where('owner_id', '=', payer.userId)
          .where('kind', '=', 'user')
          .executeTakeFirstOrThrow()
        assert.equal(Number(leases), 0)
        await mustVerify()
      })

    it('is not extended by a negative amount, which would create quota', async () => {
      const ledger = await open(nodeDir())
      const payer = await newPayer(100, undefined)
      const hold = await ledger.hold(requestOf(payer, 10))
      assert.equal(await hold.extend(-5 * UNIT), true)
      assert.equal(hold.held(), 10 * UNIT)
      await settle(hold, 8)
      await ledger.close()
      assert.equal((await quotasOf(payer)).user, 92)
      await mustVerify()
    })

    it('applies requests that are settled during a batch with the next interval, or at once for a read', async () => {
      const books = createBooks(gateway.db, engine)
      const sizes: number[] = []
      let duringBatch = async () => {}
      async function apply(...[nodeId, batch]: Parameters<Books['apply']>): Promise<void> {
        sizes.push(JSON.parse(batch.settled.toString()).length)
        await duringBatch()
        await books.apply(nodeId, batch)
      }
      const ledger = await open(nodeDir(), { apply }, { ...systemTimers, every: () => () => {} })
      const payer = await newPayer(undefined, undefined)
      const settleOne = async () => settle(await ledger.hold(requestOf(payer, 1)), 1)
      const once = (work: () => Promise<unknown>) => async () => {
        duringBatch = async () => {}
        await work()
      }
      duringBatch = once(async () => {
        await settleOne()
        await settleOne()
      })
      await settleOne()
      await ledger.barrier()
      assert.deepEqual(sizes, [1])
      let read: Promise<void> | undefined
      duringBatch = once(async () => {
        await settleOne()
        read = ledger.barrier()
      })
      await ledger.barrier()
      await read
      assert.deepEqual(sizes, [1, 2, 1])
      await settleOne()
      await ledger.close()
      assert.deepEqual(sizes, [1, 2, 1, 1])
      await mustVerify()
    })

    it('leaves no entry for a request that was never sent', async () => {
      const ledger = await open(nodeDir())
      const payer = await newPayer(10, 10)
      const hold = await ledger.hold(requestOf(payer, 10))
      hold.release()
      hold.release()
      await settle(await ledger.hold(requestOf(payer, 10)), 1)
      await ledger.close()
      assert.equal((await quotasOf(payer)).requests, 1)
    })

    it('executes every change once if the store executed it without an acknowledgement', async () => {
      const books = createBooks(gateway.db, engine)
      const unacknowledged: string[] = []
      /** The call is executed, and every other response is lost. */
      const losingResponses = <Args extends unknown[], Answer>(
        name: string,
        act: (...args: Args) => Promise<Answer>,
      ) => {
        let isAcknowledged = true
        return async (...args: Args): Promise<Answer> => {
          const answer = await act(...args)
          isAcknowledged = !isAcknowledged
          if (isAcknowledged) return answer
          unacknowledged.push(name)
          throw new Error('the connection was cut')
        }
      }
      const node = nodeDir()
      const ledger = await open(node, {
        lease: losingResponses('lease', books.lease),
        returnLease: losingResponses('returnLease', books.returnLease),
        apply: losingResponses('apply', books.apply),
      })
      const payer = await newPayer(100, 90)
      const accounts = [
        { kind: 'user', ownerId: payer.userId },
        { kind: 'token', ownerId: payer.tokenId },
      ] as const
      /** Retries like a client that was instructed to retry. */
      const persist = async <T>(act: () => Promise<T>, tries = 5): Promise<T> =>
        act().catch(error => (tries > 1 ? persist(act, tries - 1) : Promise.reject(error)))
      for (let round = 1; round <= 5; round++) {
        await settle(await persist(async () => ledger.hold(requestOf(payer, 10))), 3)
        await settle(await persist(async () => ledger.hold(requestOf(payer, 10))), 4)
        // A request that is settled between a failed batch and its retry must not join that batch.
        await ledger.barrier().catch(() => {})
        await settle(await persist(async () => ledger.hold(requestOf(payer, 10))), 1)
        for (const account of accounts) await persist(() => ledger.flushAndReturn(account))
        const spent = 8 * round
        assert.deepEqual(await quotasOf(payer), {
          user: 100 - spent,
          userUsed: spent,
          requests: 3 * round,
          token: 90 - spent,
          tokenUsed: spent,
        })
        await mustVerify()
      }
      const leaseRows = await gateway.db
        .selectFrom('leases')
        .select('amount')
        .where('node_id', '=', node.slice(-6))
        .execute()
      assert.deepEqual(
        leaseRows.map(({ amount }) => amount),
        [0, 0],
      )
      assert.deepEqual([...new Set(unacknowledged)].sort(), ['apply', 'lease', 'returnLease'])
      await persist(() => ledger.close())
    })

    it('ends the wait for a batch that the store committed before an error of unknown kind', async () => {
      const books = createBooks(gateway.db, engine)
      let errors = 0
      const ledger = await open(nodeDir(), {
        async apply(nodeId, batch) {
          await books.apply(nodeId, batch)
          if (errors++ === 0) throw new Error('the answer could not be read')
        },
      })
      const payer = await newPayer(100, 100)
      await settle(await ledger.hold(requestOf(payer, 10)), 3)
      await assert.rejects(ledger.barrier(), /could not be read/)
      await ledger.barrier()
      await ledger.close()
      assert.equal(errors, 1, 'the committed batch was sent again')
      assert.equal((await quotasOf(payer)).userUsed, 3)
    })

    it('lets an unlimited user with an unlimited token spend without a lease', async () => {
      const ledger = await open(nodeDir())
      const payer = await newPayer(undefined, undefined)
      await settle(await ledger.hold(requestOf(payer, 1_000_000)), 12)
      await ledger.close()
      assert.deepEqual(await quotasOf(payer), { user: 0, userUsed: 12, requests: 1, token: 0, tokenUsed: 12 })
      await mustVerify()
    })

    it('returns its lease, so that an administrator can subtract the quota', async () => {
      const ledger = await open(nodeDir())
      const payer = await newPayer(100, undefined)
      const hold = await ledger.hold(requestOf(payer, 30))
      const take = (value: number) =>
        gateway.api('POST', '/api/user/manage', {
          id: payer.userId,
          action: 'add_quota',
          mode: 'subtract',
          value,
        })
      await ledger.flushAndReturn({ kind: 'user', ownerId: payer.userId })
      assert.equal((await take(71)).status, 409)
      assert.equal((await take(70)).status, 200)
      await settle(hold, 30)
      await ledger.close()
      assert.equal((await quotasOf(payer)).user, 0)
      await mustVerify()
    })

    it('ends every request that a killed process left open in exactly one entry', async () => {
      const node = nodeDir()
      // None of its settlements reach the store, as if the process had been killed before.
      const killed = await open(node, { apply: () => new Promise(() => {}) })
      const payer = await newPayer(1_000, 1_000)
      await settle(await killed.hold(requestOf(payer, 10)), 3)
      await killed.hold(requestOf(payer, 20))
      const unanswered = await killed.hold(requestOf(payer, 30))
      await unanswered.attempt(7, 5 * UNIT)
      const delivered = await killed.hold(requestOf(payer, 40))
      await delivered.attempt(8, 5 * UNIT)
      delivered.progress(2 * UNIT)
      delivered.progress(11 * UNIT)
      await new Promise(resolve => setImmediate(() => setImmediate(resolve)))

      const next = await open(node)
      assert.deepEqual(await quotasOf(payer), {
        user: 986,
        userUsed: 14,
        requests: 3,
        token: 986,
        tokenUsed: 14,
      })
      const unresolved = await gateway.db
        .selectFrom('suspense')
        .selectAll()
        .where('user_id', '=', payer.userId)
        .execute()
      assert.deepEqual(
        unresolved.map(({ channel_id, amount }) => ({ channel_id, amount })),
        [{ channel_id: 7, amount: 5 * UNIT }],
      )
      const account = await gateway.db
        .selectFrom('accounts')
        .select('held')
        .where('kind', '=', 'user')
        .where('owner_id', '=', payer.userId)
        .executeTakeFirst()
      assert.equal(account?.held, 0)
      await next.close()

      const again = await open(node)
      await again.close()
      assert.equal((await quotasOf(payer)).userUsed, 14)
      await mustVerify()
    })

    it('records the cost of an interrupted stream above its first hold as overrun', async () => {
      const node = nodeDir()
      const killed = await open(node)
      const payer = await newPayer(10_000, 10_000)
      const hold = await killed.hold(requestOf(payer, 10))
      await hold.attempt(1, UNIT)
      assert.equal(await hold.extend(90 * UNIT), true)
      hold.progress(60 * UNIT)
      await nextTurn()
      await nextTurn()

      const next = await open(node)
      await next.close()
      assert.equal((await quotasOf(payer)).userUsed, 10)
      const row = await gateway.db
        .selectFrom('logs')
        .select(['cost', 'other'])
        .where('user_id', '=', payer.userId)
        .executeTakeFirstOrThrow()
      assert.deepEqual([Number(row.cost), JSON.parse(row.other).overrun], [10 * UNIT, 50 * UNIT])
      await mustVerify()
    })

    it('writes an entry and a usage row of each request, whatever the size of the batch', async () => {
      const ledger = await open(nodeDir())
      const payer = await newPayer(1_000, 1_000)
      const rids: string[] = []
      for (const size of [1, 15, 16, 17, 127, 128, 129, 290]) {
        const batch = Array.from({ length: size }, () => requestOf(payer, 1))
        rids.push(...batch.map(({ rid }) => rid))
        const holds = await Promise.all(batch.map(request => ledger.hold(request)))
        await Promise.all(holds.map(hold => settle(hold, 1)))
        await ledger.barrier()
      }
      await ledger.close()
      for (const [table, order] of [
        ['logs', 'id'],
        ['entries', 'seq'],
      ] as const) {
        const rows = await gateway.db
          .selectFrom(table)
          .select('request_id')
          .where('user_id', '=', payer.userId)
          .where('request_id', 'in', rids)
          .orderBy(order)
          .execute()
        assert.deepEqual(
          rows.map(row => row.request_id),
          rids,
        )
      }
      await mustVerify()
    })

    it('applies a batch once if it is sent twice', async () => {
      const node = nodeDir()
      const books = createBooks(gateway.db, engine)
      let isFirst = true
      const ledger = await open(node, {
        apply: async (id, batch) => {
          await books.apply(id, batch)
          if (isFirst) {
            isFirst = false
            throw new Error('the answer to the commit was lost')
          }
        },
      })
      const payer = await newPayer(10, 10)
      await settle(await ledger.hold(requestOf(payer, 5)), 2)
      await ledger.barrier().catch(() => {})
      await ledger.close()
      assert.deepEqual((await quotasOf(payer)).userUsed, 2)
      await mustVerify()
    })
  })
}
