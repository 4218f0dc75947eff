import type { NewLog } from './schema.ts'
import type { Db } from './store.ts'

/** What a log row is about, by the numbers of this family. */
export const LOG_TYPE = { topUp: 1, consume: 2, manage: 3, system: 4, error: 5, refund: 6, login: 7 } as const

const EMPTY = {
  token_id: 0,
  token_name: '',
  channel_id: 0,
  model_name: '',
  content: '',
  cost: 0,
  prompt_tokens: 0,
  completion_tokens: 0,
  use_time_ms: 0,
  is_stream: 0,
  address: '',
  request_id: '',
  other: '{}',
} as const satisfies Partial<NewLog>

export async function insertLog(
  db: Db,
  row: Pick<NewLog, 'created_time' | 'type' | 'user_id'> & Partial<NewLog>,
): Promise<void> {
  await db
    .insertInto('logs')
    .values({ ...EMPTY, ...row })
    .execute()
}
