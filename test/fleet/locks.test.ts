import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, before, describe, it } from 'node:test'
import { setTimeout as wait } from 'node:timers/promises'
import { sql } from 'kysely'
import { createChainKey } from '../../src/domain/chain.ts'
import { createFleetLocks } from '../../src/fleet/locks.ts'
import { type Listener, openListener } from '../../src/store/engine/listener.ts'
import { releaseFleetLock, tryFleetLock } from '../../src/store/records/nodes.ts'
import { createDatabase } from '../support/postgres.ts'
import { until } from '../support/process.ts'

describe('a lock that machines share (docs/adr/0023-nodes-heartbeats-and-fences.md)', () => {
  let database: Awaited<ReturnType<typeof createDatabase>>
  const listeners: Listener[] = []
  before(async () => {
    database = await createDatabase()
  })
  after(async () => {
    for (const listener of listeners) await listener.close()
    await database.drop()
  })

  function machine() {
    const listener = openListener(database.url, { key: createChainKey(randomBytes(32)) })
    listeners.push(listener)
    const locks = createFleetLocks({
      clock: {
        monotonicMs: () => performance.now(),
        wallMs: Date.now,
        wait: async (ms, signal) => void (await wait(ms, undefined, signal && { signal })),
      },
      random: Math.random,
      tryLock: name => tryFleetLock(listener.db, name),
      unlock: name => releaseFleetLock(listener.db, name),
      connection: listener.connection,
    })
    return { listener, locks }
  }

  it('is lost with its connection, and its owner notices it with the next connection', async () => {
    const [one, other] = [machine(), machine()]
    await one.locks.exclusively('user:1', async lock => {
      lock.mustStillHold()
      const { rows } = await sql<{ pid: number }>`select pg_backend_pid() as pid`.execute(one.listener.db)
      await sql`select pg_terminate_backend(${rows[0]?.pid}, 5000)`.execute(other.listener.db)
      await other.locks.exclusively('user:1', async otherLock => {
        otherLock.mustStillHold()
        // A call of the other machine arrives through a new connection only.
        await one.listener.open()
        assert.throws(() => lock.mustStillHold(), /the lock "user:1" was lost with its connection/)
        otherLock.mustStillHold()
      })
    })
    await one.locks.exclusively('user:1', async lock => lock.mustStillHold())
  })

  it('is released when its owner stops without closing its connection, and the owner notices it when it goes on', async () => {
    const [one, other] = [machine(), machine()]
    await one.locks.exclusively('user:2', async lock => {
      lock.mustStillHold()
      // From here on the owner sends nothing, as a machine without power or a suspended one.
      await until('another machine to get the lock', () =>
        other.locks
          .exclusively('user:2', async otherLock => {
            otherLock.mustStillHold()
            assert.throws(() => lock.mustStillHold(), /the lock "user:2" was lost/)
            return true
          })
          .catch(error => {
            if (/in use by another machine/.test(error.message)) return undefined
            throw error
          }),
      )
    })
    await one.locks.exclusively('user:2', async lock => lock.mustStillHold())
  })
})
