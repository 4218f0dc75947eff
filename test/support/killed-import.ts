import assert from 'node:assert/strict'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { unitsLeft } from '../../src/domain/money.ts'
import { runHere } from './command.ts'
import { oneEngine } from './engines.ts'
import { channel, token, user } from './new-api-content.ts'
import { fillSource, NEW_API_TABLES } from './new-api-source.ts'
import { launch, lookInto, newDirectory, newGround, settingsOf, until } from './process.ts'
import { writeSqlite } from './source-database.ts'

/** A bcrypt hash, as new-api stores passwords. */
export const HASH = '$2a$10$abcdefghijklmnopqrstuuABCDEFGHIJKLMNOPQRSTUVWXYZ01234'

const from1 = (count: number) => Array.from({ length: count }, (_, index) => index + 1)

async function makeSource(users: number, tokens: number): Promise<string> {
  const file = join(newDirectory(), 'one-api.db')
  const writer = writeSqlite(file)
  await fillSource(writer, NEW_API_TABLES, {
    users: from1(users).map(id => user(id, `user${id}`, { quota: id * 1_000, password: HASH })),
    tokens: from1(tokens).map(id => token(id, (id % users) + 1, `k${String(id).padStart(47, 'x')}`)),
    channels: from1(20).map(id => channel(id, `channel ${id}`)),
  })
  await writer.close()
  return file
}

type KilledImport = {
  readonly users: number
  readonly tokens: number
  /** The numbers of tokens after which an import is killed, one import after the other. */
  readonly killedAfter: readonly number[]
}

/** The suite of an import that is killed. */
export function describeKilledImport({ users, tokens, killedAfter }: KilledImport): void {
  for (const engine of oneEngine('postgres'))
    describe(`an import into ${engine} that is killed`, () => {
      it('is completed by the next runs, with every unit booked once', async () => {
        const from = await makeSource(users, tokens)
        const ground = await newGround(engine)
        const env = settingsOf(ground)
        const words = ['import', 'new-api', '--from', from, '--json']
        const countTokens = () =>
          lookInto(ground, async ({ db }) => (await db.selectFrom('tokens').select('id').execute()).length)
        for (const least of killedAfter) {
          const importing = launch(words, { env })
          await until(`${least} tokens to be imported`, async () =>
            (await countTokens()) >= least || !importing.isRunning() ? true : undefined,
          )
          importing.signal('SIGKILL')
          await importing.ended
        }
        const last = await runHere(words, { env })
        assert.equal(last.code, 0, last.stderr)
        assert.equal(await countTokens(), tokens)
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
          from1(users).map(id => [`user${id}`, id * 1_000]),
        )
        const verified = await runHere(['verify'], { env })
        assert.equal(verified.code, 0, verified.stdout)
      })
    })
}
