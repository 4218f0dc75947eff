import assert from 'node:assert/strict'
import { join } from 'node:path'
import { type Gateway, startGateway } from './gateway.ts'
import { fillSource, type NEW_API_TABLES, type ONE_API_TABLES, type SourceContent } from './new-api-source.ts'
import { newDirectory } from './process.ts'
import { writeSqlite } from './source-database.ts'

export const sqliteFile = async (
  tables: typeof NEW_API_TABLES | typeof ONE_API_TABLES,
  content: SourceContent,
) => {
  const file = join(newDirectory(), 'source.db')
  const writer = writeSqlite(file)
  await fillSource(writer, tables, content)
  await writer.close()
  return file
}

/** Everything that an import wrote, without ids and times of this gateway. */
export async function contentOf({ db }: Gateway) {
  const users = await db
    .selectFrom('users')
    .innerJoin('accounts', join => join.onRef('accounts.owner_id', '=', 'users.id').on('kind', '=', 'user'))
    .select(['username', 'display_name', 'role', 'status', 'user_group', 'unlimited', 'credited'])
    .orderBy('username_key')
    .execute()
  const tokens = await db
    .selectFrom('tokens')
    .innerJoin('accounts', join => join.onRef('accounts.owner_id', '=', 'tokens.id').on('kind', '=', 'token'))
    .select(['name', 'key_hint', 'status', 'expired_time', 'models', 'allow_ips', 'unlimited', 'credited'])
    .orderBy('key_hint')
    .execute()
  const channels = await db
    .selectFrom('channels')
    .select(['name', 'type', 'base_url', 'models', 'model_mapping', 'priority', 'weight', 'status', 'tag'])
    .orderBy('name')
    .execute()
  const prices = await db.selectFrom('prices').select(['model', 'price']).orderBy('model').execute()
  return { users, tokens, channels, prices }
}

export async function withGateway<T>(work: (gateway: Gateway) => Promise<T>): Promise<T> {
  const gateway = await startGateway({ engine: 'sqlite' })
  try {
    return await work(gateway)
  } finally {
    await gateway.close()
  }
}

export const importInto = async (gateway: Gateway, kind: 'new-api' | 'one-api', from: string) => {
  const report = await gateway.operations.importFrom({ kind, from, dryRun: false })
  assert.ok((await gateway.operations.verify({})).ok)
  return report
}
