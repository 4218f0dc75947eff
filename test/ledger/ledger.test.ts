import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { openDatabase } from '../../src/host/sqlite-open.ts'
import type { Books } from '../../src/ledger/books.ts'
import { createJournal, type JournalDatabase } from '../../src/ledger/journal.ts'
import { createLeases } from '../../src/ledger/leases.ts'
import { type Hold, type HoldRequest, openLedger } from '../../src/ledger/ledger.ts'
import type { Neighbours } from '../../src/ledger/low-balance.ts'
import { createBooks } from '../../src/store/books/books.ts'
import { ENGINES, type Gateway, startGateway } from '../support/gateway.ts'
import { USAGE } from '../support/usage.ts'

/** A node that shares its accounts with nobody. */
const ALONE: Neighbours = { areNone: true, recall: async () => {}, exclusively: (_userId, work) => work() }

const UNIT = 2_000

describe('a lease', () => {
  const account = { kind: 'user', ownerId: 1 } as const

  /** A purse that has leased something, in front of a store that takes back when it is told to. */
  async function leased() {
    const returned: { amount: number; number: number; settle: PromiseWithResolvers<void> }[] = []
    const asked: number[] = []
    const clock = { nowMs: 0 }
    let numbers = 0
    const purses = createLeases({
      find: async () => ({ isUnlimited: false }),
      lease: async (_account, want) => {
        asked.push(want)
        await nextTurn()
        return Math.min(want, 1_000_000)
      },
      giveBack: (_account, amount, number) => {
        const settle = Promise.withResolvers<void>()
        returned.push({ amount, number, settle })
        return settle.promise
      },
      nextNumber: () => ++numbers,
      nowMs: () => clock.nowMs,
    })
    const purse = await purses.open(account)
    assert.ok(purse)
    await purses.ask(purse, 5)
    return { purses, purse, returned, asked, clock }
  }

  it('that is on its way back is waited for by everybody who recalls it', async () => {
    const { purses, returned } = await leased()
    const first = purses.recall(account)
    let isBack = false
    const second = purses.recall(account).then(() => {
      isBack = true
    })
    await nextTurn()
    assert.deepEqual([isBack, returned.length], [false, 1])
    returned[0]?.settle.resolve()
    await Promise.all([first, second])
    assert.equal(returned.length, 1)
  })

  it('that is on its way back is waited for by whoever asks for more: until then the store has none', async () => {
    const { purses, purse, returned, asked } = await leased()
    const before = asked.length
    const recalled = purses.recall(account)
    await nextTurn()
    const more = purses.ask(purse, 1)
    const filled = purses.fill(purse, 1, Promise.resolve())
    await nextTurn()
    assert.equal(asked.length, before)
    returned[0]?.settle.resolve()
    await Promise.all([recalled, more, filled])
    assert.ok(asked.length > before)
  })

  it('is not forgotten while somebody asks for more, however long nobody had', async () => {
    const { purses, purse, returned, clock } = await leased()
    clock.nowMs = 120_000
    const swept = purses.sweep()
    await nextTurn()
    assert.equal(purses.open(account), purse)
    const more = purses.ask(purse, 5)
    returned[0]?.settle.resolve()
    await Promise.all([swept, more])
    assert.equal(purses.open(account), purse)
    assert.ok(purses.covers(purse, 5))
  })

  it('that cannot be had for somebody who waits ends nothing but that', async () => {
    const { purses, purse, returned } = await leased()
    const recalled = assert.rejects(purses.recall(account), /unreachable/)
    await nextTurn()
    const filled = assert.rejects(purses.fill(purse, 1, Promise.resolve()), /still unreachable/)
    returned[0]?.settle.reject(new Error('unreachable'))
    await recalled
    await nextTurn()
    returned[1]?.settle.reject(new Error('still unreachable'))
    // A rejection that nobody hears would end the test, as it would the process.
    await filled
    await nextTurn()
    assert.equal(purse.asking, undefined)
  })

  it('that goes back while a request waits for it does not make the account look exhausted', async () => {
    const { purses, purse, returned } = await leased()
    purses.take(purse, purse.lease)
    const asked = purses.ask(purse, Number.MAX_SAFE_INTEGER)
    const recalled = purses.recall(account)
    await nextTurn()
    await nextTurn()
    returned[0]?.settle.resolve()
    await recalled
    const isExhausted = await asked
    assert.deepEqual([isExhausted(), purses.covers(purse, 1)], [false, false])
  })

  it('goes back when its account was changed, also what running requests release later', async () => {
    const { purses, purse, returned, asked } = await leased()
    const hold = { amount: 5, leased: purses.take(purse, 5), edition: purse.edition }
    const refreshed = purses.refresh(account)
    await nextTurn()
    assert.deepEqual([purse.lease, returned[0]?.amount], [0, 75])
    returned[0]?.settle.resolve()
    await refreshed
    purses.end(purse, hold, 2)
    assert.ok(!purses.covers(purse, 1), 'what is left of the hold is not spendable')
    const before = asked.length
    const more = purses.ask(purse, 1)
    await nextTurn()
    assert.deepEqual(
      [returned[1]?.amount, asked.length],
      [3, before],
      'the rest goes back before more is leased',
    )
    returned[1]?.settle.resolve()
    await more
    assert.deepEqual([purse.surplus, asked.length], [0, before + 1])
  })

  it('that the store was not heard to take is given back again by the next who recalls it, and spent by nobody', async () => {
    const { purses, purse, returned } = await leased()
    const first = assert.rejects(purses.recall(account), /unreachable/)
    const second = purses.recall(account)
    await nextTurn()
    returned[0]?.settle.reject(new Error('unreachable'))
    await first
    await nextTurn()
    const told = returned.map(({ amount, number }) => ({ amount, number }))
    assert.deepEqual(told, [told[0], told[0]])
    assert.ok(!purses.covers(purse, 1))
    returned[1]?.settle.resolve()
    await second
    assert.equal(purse.lease, 0)
  })
})

for (const engine of ENGINES) {
  describe(`the ledger on ${engine}`, () => {
    let gateway: Gateway
    let dir: string
    let requests = 0
    before(async () => {
      gateway = await startGateway({ engine })
      dir = mkdtempSync(join(tmpdir(), 'sluice-ledger-'))
    })
    after(async () => {
      await gateway.close()
      rmSync(dir, { recursive: true, force: true })
    })

    const openJournal = (node: string) =>
      createJournal({
        dir: node,
        fullSync: false,
        nowMs: Date.now,
        onShort: () => {},
        open: path => openDatabase(path, { readOnly: false, timeoutMs: 1000 }) as unknown as JournalDatabase,
      })

    const nodeDir = () => mkdtempSync(join(dir, 'node-'))

    function open(node: string, change: Partial<Books> = {}) {
      return openLedger({
        nodeId: node.slice(-6),
        journal: openJournal(node),
        books: { ...createBooks(gateway.db, engine), ...change },
        neighbours: ALONE,
        nowMs: Date.now,
        onFailure: () => {},
      })
    }

    /** Somebody with so many units, and a token with so many; undefined is unlimited. */
    async function someone(userUnits: number | undefined, tokenUnits: number | undefined) {
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
    type Someone = Awaited<ReturnType<typeof someone>>

    const asking = ({ userId, tokenId }: Someone, units: number): HoldRequest => ({
      rid: `req_${++requests}`,
      userId,
      tokenId,
      tokenName: 't',
      model: 'gpt-4o-mini',
      amount: units * UNIT,
      isStream: false,
      address: '',
    })

    const left = async ({ tokenId, accessToken }: Someone) => {
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

    it('charges user and token the same, and gives back what was held beyond it', async () => {
      const ledger = await open(nodeDir())
      const payer = await someone(100, 50)
      const hold = await ledger.hold(asking(payer, 40))
      await hold.attempt(1, UNIT)
      assert.equal(ledger.heldOf({ kind: 'user', ownerId: payer.userId }), 40 * UNIT)
      assert.equal(await settle(hold, 7), 7 * UNIT)
      await ledger.barrier()
      assert.deepEqual(await left(payer), { user: 93, userUsed: 7, requests: 1, token: 43, tokenUsed: 7 })
      await ledger.close()
      await mustVerify()
    })

    it('refuses what user or token cannot cover, whichever is tighter, and holds nothing then', async () => {
      const ledger = await open(nodeDir())
      const refusal = { code: 'insufficient_quota' }
      const poorToken = await someone(100, 5)
      await assert.rejects(ledger.hold(asking(poorToken, 6)), refusal)
      const poorUser = await someone(5, undefined)
      await assert.rejects(ledger.hold(asking(poorUser, 6)), refusal)
      assert.equal(ledger.heldOf({ kind: 'user', ownerId: poorUser.userId }), 0)
      await settle(await ledger.hold(asking(poorUser, 5)), 5)
      await ledger.close()
      assert.equal((await left(poorUser)).user, 0)
    })

    it('lets exactly as many of a thousand racers through as there is money for', async () => {
      const ledger = await open(nodeDir())
      const payer = await someone(37 * 3, undefined)
      const outcomes = await Promise.allSettled(
        Array.from({ length: 1_000 }, async () => settle(await ledger.hold(asking(payer, 3)), 3)),
      )
      assert.equal(outcomes.filter(({ status }) => status === 'fulfilled').length, 37)
      await ledger.close()
      assert.deepEqual(await left(payer).then(({ user, requests: count }) => ({ user, count })), {
        user: 0,
        count: 37,
      })
      await mustVerify()
    })

    it('takes usage above the hold from what is left, and books the rest as overrun', async () => {
      const ledger = await open(nodeDir())
      const payer = await someone(10, undefined)
      assert.equal(await settle(await ledger.hold(asking(payer, 4)), 6), 6 * UNIT)
      assert.equal(await settle(await ledger.hold(asking(payer, 2)), 9), 4 * UNIT)
      await ledger.close()
      assert.equal((await left(payer)).user, 0)
      const row = await gateway.db
        .selectFrom('logs')
        .select('other')
        .where('user_id', '=', payer.userId)
        .where('other', 'like', '%overrun%')
        .executeTakeFirst()
      assert.equal(JSON.parse(row?.other ?? '{}').overrun, 5 * UNIT)
    })

    it('leaves no entry for a request that was never sent', async () => {
      const ledger = await open(nodeDir())
      const payer = await someone(10, 10)
      const hold = await ledger.hold(asking(payer, 10))
      hold.release()
      hold.release()
      await settle(await ledger.hold(asking(payer, 10)), 1)
      await ledger.close()
      assert.equal((await left(payer)).requests, 1)
    })

    it('has everything once where the store did what nobody heard of', async () => {
      const books = createBooks(gateway.db, engine)
      const unheard: string[] = []
      /** Every other answer is lost, though what it tells of was done. */
      const deaf = <Given extends unknown[], Answer>(
        name: string,
        act: (...given: Given) => Promise<Answer>,
      ) => {
        let isHeard = true
        return async (...given: Given): Promise<Answer> => {
          const answer = await act(...given)
          isHeard = !isHeard
          if (isHeard) return answer
          unheard.push(name)
          throw new Error('the connection was cut')
        }
      }
      const node = nodeDir()
      const ledger = await open(node, {
        lease: deaf('lease', books.lease),
        giveBack: deaf('giveBack', books.giveBack),
        apply: deaf('apply', books.apply),
      })
      const payer = await someone(100, 90)
      const accounts = [
        { kind: 'user', ownerId: payer.userId },
        { kind: 'token', ownerId: payer.tokenId },
      ] as const
      /** As whoever is told to come back later does. */
      const persist = async <T>(act: () => Promise<T>, tries = 5): Promise<T> =>
        act().catch(error => (tries > 1 ? persist(act, tries - 1) : Promise.reject(error)))
      for (let round = 1; round <= 5; round++) {
        await settle(await persist(() => ledger.hold(asking(payer, 10))), 3)
        await settle(await persist(() => ledger.hold(asking(payer, 10))), 4)
        // What comes between a try that failed and the next is no part of it.
        await ledger.barrier().catch(() => {})
        await settle(await persist(() => ledger.hold(asking(payer, 10))), 1)
        for (const account of accounts) await persist(() => ledger.surrender(account))
        const spent = 8 * round
        assert.deepEqual(await left(payer), {
          user: 100 - spent,
          userUsed: spent,
          requests: 3 * round,
          token: 90 - spent,
          tokenUsed: spent,
        })
        await mustVerify()
      }
      const held = await gateway.db
        .selectFrom('leases')
        .select('amount')
        .where('node_id', '=', node.slice(-6))
        .execute()
      assert.deepEqual(
        held.map(({ amount }) => amount),
        [0, 0],
      )
      assert.deepEqual([...new Set(unheard)].sort(), ['apply', 'giveBack', 'lease'])
      await persist(() => ledger.close())
    })

    it('lets an unlimited user with an unlimited token spend without a lease', async () => {
      const ledger = await open(nodeDir())
      const payer = await someone(undefined, undefined)
      await settle(await ledger.hold(asking(payer, 1_000_000)), 12)
      await ledger.close()
      assert.deepEqual(await left(payer), { user: 0, userUsed: 12, requests: 1, token: 0, tokenUsed: 12 })
      await mustVerify()
    })

    it('gives back what it leased, so that an administrator can take it', async () => {
      const ledger = await open(nodeDir())
      const payer = await someone(100, undefined)
      const hold = await ledger.hold(asking(payer, 30))
      const take = (value: number) =>
        gateway.api('POST', '/api/user/manage', {
          id: payer.userId,
          action: 'add_quota',
          mode: 'subtract',
          value,
        })
      await ledger.surrender({ kind: 'user', ownerId: payer.userId })
      assert.equal((await take(71)).status, 409)
      assert.equal((await take(70)).status, 200)
      await settle(hold, 30)
      await ledger.close()
      assert.equal((await left(payer)).user, 0)
      await mustVerify()
    })

    it('ends every request that a killed process left open in exactly one entry', async () => {
      const node = nodeDir()
      // Nothing this one settles reaches the store: its process is gone before it could.
      const killed = await open(node, { apply: () => new Promise(() => {}) })
      const payer = await someone(1_000, 1_000)
      await settle(await killed.hold(asking(payer, 10)), 3)
      await killed.hold(asking(payer, 20))
      const sent = await killed.hold(asking(payer, 30))
      await sent.attempt(7, 5 * UNIT)
      const delivered = await killed.hold(asking(payer, 40))
      await delivered.attempt(8, 5 * UNIT)
      delivered.progress(2 * UNIT)
      delivered.progress(11 * UNIT)
      await new Promise(resolve => setImmediate(() => setImmediate(resolve)))

      const next = await open(node)
      assert.deepEqual(await left(payer), { user: 986, userUsed: 14, requests: 3, token: 986, tokenUsed: 14 })
      const doubts = await gateway.db
        .selectFrom('suspense')
        .selectAll()
        .where('user_id', '=', payer.userId)
        .execute()
      assert.deepEqual(
        doubts.map(({ channel_id, amount }) => ({ channel_id, amount })),
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
      assert.equal((await left(payer)).userUsed, 14)
      await mustVerify()
    })

    it('applies a batch once, although it is sent twice', async () => {
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
      const payer = await someone(10, 10)
      await settle(await ledger.hold(asking(payer, 5)), 2)
      await ledger.barrier().catch(() => {})
      await ledger.close()
      assert.deepEqual((await left(payer)).userUsed, 2)
      await mustVerify()
    })
  })
}
