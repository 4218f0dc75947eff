import assert from 'node:assert/strict'
import { cpSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { sql } from 'kysely'
import type { AccountId, AccountKind } from '../../src/domain/account.ts'
import { unitsLeft } from '../../src/domain/money.ts'
import { lockAccount } from '../../src/store/books/accounts.ts'
import { runHere } from '../support/command.ts'
import { oneEngine } from '../support/engines.ts'
import { channel, token, user } from '../support/new-api-content.ts'
import { fillSource, NEW_API_TABLES } from '../support/new-api-source.ts'
import {
  launch,
  lookInto,
  newDirectory,
  newGround,
  run,
  type ServerOptions,
  settingsOf,
  until,
} from '../support/process.ts'
import { writeSqlite } from '../support/source-database.ts'

const USERS = 300
const TOKENS = 3_000
const HASH = '$2a$10$abcdefghijklmnopqrstuuABCDEFGHIJKLMNOPQRSTUVWXYZ01234'
/** The numbers of tokens after which the import is killed: at its start, and in its middle. */
const KILLED_AFTER = [1, TOKENS / 3]

const from1 = (count: number) => Array.from({ length: count }, (_, index) => index + 1)

async function makeSource(): Promise<string> {
  const file = join(newDirectory(), 'one-api.db')
  const writer = writeSqlite(file)
  await fillSource(writer, NEW_API_TABLES, {
    users: from1(USERS).map(id => user(id, `user${id}`, { quota: id * 1_000, password: HASH })),
    tokens: from1(TOKENS).map(id => token(id, (id % USERS) + 1, `k${String(id).padStart(47, 'x')}`)),
    channels: from1(20).map(id => channel(id, `channel ${id}`)),
  })
  await writer.close()
  return file
}

for (const engine of oneEngine('postgres'))
  describe(`an import into ${engine} that is killed`, () => {
    it('is completed by the next runs, with every unit booked once', async () => {
      const from = await makeSource()
      const ground = await newGround(engine)
      const env = settingsOf(ground)
      const words = ['import', 'new-api', '--from', from, '--json']
      const countTokens = () =>
        lookInto(ground, async ({ db }) => (await db.selectFrom('tokens').select('id').execute()).length)
      for (const least of KILLED_AFTER) {
        const importing = launch(words, { env })
        await until(`${least} tokens to be imported`, async () =>
          (await countTokens()) >= least || !importing.isRunning() ? true : undefined,
        )
        importing.signal('SIGKILL')
        await importing.ended
      }
      const last = await run(words, { env })
      assert.equal(last.code, 0, last.stderr)
      assert.equal(await countTokens(), TOKENS)
      const balances = await lookInto(ground, ({ db }) =>
        db
          .selectFrom('accounts')
          .innerJoin('users', join =>
            join.onRef('users.id', '=', 'accounts.owner_id').on('kind', '=', 'user'),
          )
          .select(['username', 'credited'])
          .where('username', '<>', 'root')
          .orderBy('users.id')
          .execute(),
      )
      assert.deepEqual(
        balances.map(({ username, credited }) => [username, unitsLeft(credited)]),
        from1(USERS).map(id => [`user${id}`, id * 1_000]),
      )
      const verified = await runHere(['verify'], { env })
      assert.equal(verified.code, 0, verified.stdout)
    })
  })

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
      run(['import', 'new-api', '--from', from, '--json'], { env: settingsOf(on) })
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
