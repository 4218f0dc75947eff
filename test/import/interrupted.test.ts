import assert from 'node:assert/strict'
import { cpSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { sql } from 'kysely'
import type { AccountId, AccountKind } from '../../src/domain/account.ts'
import { unitsLeft } from '../../src/domain/money.ts'
import { lockAccount } from '../../src/store/books/accounts.ts'
import { runHere } from '../support/command.ts'
import { describeKilledImport, HASH } from '../support/killed-import.ts'
import { token, user } from '../support/new-api-content.ts'
import { fillSource, NEW_API_TABLES } from '../support/new-api-source.ts'
import {
  lookInto,
  newDirectory,
  newGround,
  type ServerOptions,
  settingsOf,
  until,
} from '../support/process.ts'
import { writeSqlite } from '../support/source-database.ts'

// In its middle. The system tests kill it at its start too, and have more tokens.
describeKilledImport({ users: 100, tokens: 1_200, killedAfter: [400] })

describe('two machines that import the same source into PostgreSQL at the same time', () => {
  const accountOf = (ground: ServerOptions, kind: AccountKind) =>
    lookInto(ground, ({ db }) =>
      db
        .selectFrom('accounts')
        .innerJoin('imports', 'imports.target_id', 'accounts.owner_id')
        .where('accounts.kind', '=', kind)
        .where('imports.kind', '=', kind)
        .select(['accounts.kind', 'accounts.owner_id as ownerId', 'accounts.credited'])
        .executeTakeFirstOrThrow(),
    )

  /** Locks an account until both imports wait for it: so both have read it before either can write. */
  const lockUntilBothWait = (
    ground: ServerOptions,
    account: AccountId,
    whileLocked: () => Promise<unknown>,
  ) =>
    lookInto(ground, ({ db }) =>
      db.transaction().execute(async trx => {
        await lockAccount(trx, account)
        await whileLocked()
        await until(`both imports to wait for the ${account.kind}`, async () => {
          const { rows } = await sql<{ waiting: number }>`
            select count(*) as waiting from pg_stat_activity
            where datname = current_database() and wait_event_type = 'Lock'`.execute(db)
          return rows[0]?.waiting === 2 ? true : undefined
        })
      }),
    )

  it('book the difference of a user and of a token once', async () => {
    const from = join(newDirectory(), 'one-api.db')
    const source = writeSqlite(from)
    await fillSource(source, NEW_API_TABLES, {
      users: [user(1, 'alice', { quota: 500, password: HASH })],
      tokens: [token(1, 1, 'k'.repeat(48), { remain_quota: 300 })],
      channels: [],
    })
    const ground = await newGround('postgres')
    const runImport = (on: ServerOptions) =>
      runHere(['import', 'new-api', '--from', from, '--json'], { env: settingsOf(on) })
    const first = await runImport(ground)
    assert.equal(first.code, 0, first.stderr)
    const other = { ...ground, dataDir: join(newDirectory(), 'data') }
    cpSync(ground.dataDir, other.dataDir, { recursive: true })
    rmSync(join(other.dataDir, 'nodes'), { recursive: true, force: true })
    await source.run('update users set quota = quota + 1000')
    await source.run('update tokens set remain_quota = remain_quota + 2000')
    await source.close()

    const userBefore = await accountOf(ground, 'user')
    const imports: ReturnType<typeof runImport>[] = []
    await lockUntilBothWait(ground, await accountOf(ground, 'token'), async () => {
      await lockUntilBothWait(ground, userBefore, async () => {
        imports.push(runImport(ground), runImport(other))
      })
      await until('the difference of the user to be booked', async () =>
        (await accountOf(ground, 'user')).credited > userBefore.credited ? true : undefined,
      )
    })
    for (const { code, stderr } of await Promise.all(imports)) assert.equal(code, 0, stderr)
    const credited = [await accountOf(ground, 'user'), await accountOf(ground, 'token')].map(account =>
      unitsLeft(account.credited),
    )
    assert.deepEqual(credited, [1_500, 2_300])
    const verified = await runHere(['verify'], { env: settingsOf(ground) })
    assert.equal(verified.code, 0, verified.stdout)
  })
})
