import assert from 'node:assert/strict'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { unitsLeft } from '../../src/domain/money.ts'
import { oneEngine } from './engines.ts'
import { startGateway } from './gateway.ts'
import { HASH } from './killed-import.ts'
import { channel, token, user } from './new-api-content.ts'
import { fillSource, NEW_API_TABLES } from './new-api-source.ts'
import { newDirectory } from './process.ts'
import { writeSqlite } from './source-database.ts'

const SAMPLES = 40

const from1 = (count: number) => Array.from({ length: count }, (_, index) => index + 1)
const keyValue = (id: number) => `k${String(id).padStart(47, 'x')}`
const quotaOf = (id: number) => (id * 7_919 * 1_234_567) % 2_147_483_647

type Scale = { readonly users: number; readonly tokens: number; readonly channels: number }

async function makeSource({ users, tokens, channels }: Scale): Promise<string> {
  const file = join(newDirectory(), 'one-api.db')
  const writer = writeSqlite(file)
  const ratios = Object.fromEntries(from1(400).map(id => [`model-${id}`, id / 100]))
  await fillSource(writer, NEW_API_TABLES, {
    users: from1(users).map(id => user(id, `user${id}`, { quota: quotaOf(id), password: HASH })),
    tokens: from1(tokens).map(id =>
      token(id, (id % users) + 1, keyValue(id), { remain_quota: id * 31, unlimited_quota: id % 3 === 0 }),
    ),
    channels: from1(channels).map(id =>
      channel(id, `channel ${id}`, {
        models: from1(30)
          .map(model => `model-${((id * 7 + model) % 300) + 1}`)
          .join(),
      }),
    ),
    options: [{ key: 'ModelRatio', value: JSON.stringify(ratios) }],
  })
  await writer.close()
  return file
}

/** The suite of an import with so many rows. */
export function describeImportOf(scale: Scale): void {
  const { users, tokens, channels } = scale
  for (const engine of oneEngine('sqlite'))
    describe(`an import of ${users} users, ${tokens} tokens and ${channels} channels into ${engine}`, () => {
      it('carries every key and every unit, and twice gives the same', async () => {
        const from = await makeSource(scale)
        const gateway = await startGateway({ engine })
        const balances = () =>
          gateway.db
            .selectFrom('accounts')
            .innerJoin('users', join =>
              join.onRef('users.id', '=', 'accounts.owner_id').on('kind', '=', 'user'),
            )
            .select(['username', 'credited', 'posted'])
            .where('username', '<>', 'root')
            .orderBy('users.id')
            .execute()
        try {
          const request = { kind: 'new-api', from, dryRun: false } as const
          const { counts, notes } = await gateway.operations.importFrom(request)
          assert.deepEqual(notes, [])
          assert.equal(counts.users?.created, users)
          assert.equal(counts.tokens?.created, tokens)
          assert.equal(counts.channels?.created, channels)
          const first = await balances()
          assert.deepEqual(
            first.map(({ credited, posted }) => unitsLeft(credited - posted)),
            from1(users).map(quotaOf),
          )
          for (const sample of from1(SAMPLES)) {
            const key = `sk-${keyValue(Math.ceil((sample * tokens) / SAMPLES))}`
            const reply = await gateway.api('GET', '/v1/models', undefined, { token: key })
            assert.equal(reply.status, 200, reply.text)
          }
          const second = await gateway.operations.importFrom(request)
          for (const count of Object.values(second.counts))
            assert.deepEqual([count.created, count.changed, count.skipped], [0, 0, 0])
          assert.deepEqual(await balances(), first)
          const verified = await gateway.operations.verify({})
          assert.ok(verified.ok, verified.lines.join('\n'))
        } finally {
          await gateway.close()
        }
      })
    })
}
