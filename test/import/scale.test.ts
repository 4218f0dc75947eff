import assert from 'node:assert/strict'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { unitsLeft } from '../../src/domain/money.ts'
import { oneEngine } from '../support/engines.ts'
import { startGateway } from '../support/gateway.ts'
import { channel, token, user } from '../support/new-api-content.ts'
import { fillSource, NEW_API_TABLES } from '../support/new-api-source.ts'
import { newDirectory } from '../support/process.ts'
import { writeSqlite } from '../support/source-database.ts'

const isCampaign = process.env.SLUICE_CAMPAIGN !== undefined
const USERS = isCampaign ? 1_000 : 300
const TOKENS = isCampaign ? 10_000 : 2_000
const CHANNELS = isCampaign ? 200 : 60
const SAMPLES = 40

const from1 = (count: number) => Array.from({ length: count }, (_, index) => index + 1)
const keyValue = (id: number) => `k${String(id).padStart(47, 'x')}`
const quotaOf = (id: number) => (id * 7_919 * 1_234_567) % 2_147_483_647
const HASH = '$2a$10$abcdefghijklmnopqrstuuABCDEFGHIJKLMNOPQRSTUVWXYZ01234'

async function makeSource(): Promise<string> {
  const file = join(newDirectory(), 'one-api.db')
  const writer = writeSqlite(file)
  const ratios = Object.fromEntries(from1(400).map(id => [`model-${id}`, id / 100]))
  await fillSource(writer, NEW_API_TABLES, {
    users: from1(USERS).map(id => user(id, `user${id}`, { quota: quotaOf(id), password: HASH })),
    tokens: from1(TOKENS).map(id =>
      token(id, (id % USERS) + 1, keyValue(id), { remain_quota: id * 31, unlimited_quota: id % 3 === 0 }),
    ),
    channels: from1(CHANNELS).map(id =>
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

for (const engine of oneEngine('sqlite'))
  describe(`an import of ${USERS} users, ${TOKENS} tokens and ${CHANNELS} channels into ${engine}`, () => {
    it('carries every key and every unit, and twice gives the same', async t => {
      const from = await makeSource()
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
        const begin = performance.now()
        const { counts, notes } = await gateway.operations.importFrom(request)
        t.diagnostic(`the import took ${((performance.now() - begin) / 1000).toFixed(1)} s`)
        assert.deepEqual(notes, [])
        assert.equal(counts.users?.created, USERS)
        assert.equal(counts.tokens?.created, TOKENS)
        assert.equal(counts.channels?.created, CHANNELS)
        const first = await balances()
        assert.deepEqual(
          first.map(({ credited, posted }) => unitsLeft(credited - posted)),
          from1(USERS).map(quotaOf),
        )
        for (const sample of from1(SAMPLES)) {
          const key = `sk-${keyValue(Math.ceil((sample * TOKENS) / SAMPLES))}`
          const reply = await gateway.api('GET', '/v1/models', undefined, { token: key })
          assert.equal(reply.status, 200, reply.text)
        }
        const again = performance.now()
        const second = await gateway.operations.importFrom(request)
        t.diagnostic(`the second import took ${((performance.now() - again) / 1000).toFixed(1)} s`)
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
