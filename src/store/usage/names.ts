import { NO_CHANNEL, NO_CHANNEL_NAME, NO_MODEL_NAME } from '../../domain/rejection.ts'
import { NO_TOKEN, NO_TOKEN_NAME } from '../../domain/token.ts'
import type { Db } from '../engine/store.ts'
import type { RollupGroup } from './rollups.ts'

/** The current names of these ids; deleted ones are omitted. The key of a model is its name. */
export async function namesOf(
  db: Db,
  kind: RollupGroup,
  keys: readonly (string | number)[],
): Promise<ReadonlyMap<string | number, string>> {
  if (kind === 'model' || keys.length === 0)
    return new Map(keys.map(key => [key, key === '' ? NO_MODEL_NAME : String(key)]))
  const ids = keys.map(Number)
  const rows =
    kind === 'user'
      ? await db.selectFrom('users').select(['id', 'username as name']).where('id', 'in', ids).execute()
      : await db
          .selectFrom(kind === 'token' ? 'tokens' : 'channels')
          .select(['id', 'name'])
          .where('id', 'in', ids)
          .execute()
  const names = new Map<string | number, string>(rows.map(({ id, name }) => [id, name]))
  if (kind === 'token') return names.set(NO_TOKEN, NO_TOKEN_NAME)
  return kind === 'channel' ? names.set(NO_CHANNEL, NO_CHANNEL_NAME) : names
}
