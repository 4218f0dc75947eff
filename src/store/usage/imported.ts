import { sql } from 'kysely'
import { chunksOf } from '../engine/chunks.ts'
import type { NewLog } from '../engine/schema.ts'
import type { Trx } from '../engine/store.ts'
import { UNITS } from './fold-units.ts'
import { ROLLUP_S } from './rollups.ts'

const CHUNK = 500

type UsageRow = Omit<NewLog, 'id' | 'upstream_request_id' | 'requests'>

type Sum = {
  bucket: number
  user_id: number
  token_id: number
  channel_id: number
  model: string
  requests: number
  failures: number
  prompt_tokens: number
  completion_tokens: number
  cost: number
}

/** Sums of the rows by quarter hour, in the order in which other writers lock them. */
function sumsOf(rows: readonly UsageRow[]): Sum[] {
  const sums = new Map<string, Sum>()
  for (const row of rows) {
    const bucket = row.created_time - (row.created_time % ROLLUP_S)
    const { user_id, token_id, channel_id, model_name: model } = row
    const name = [bucket, user_id, token_id, channel_id, model].join('\n')
    const sum = sums.get(name) ?? {
      ...{ bucket, user_id, token_id, channel_id, model },
      ...{ requests: 0, failures: 0, prompt_tokens: 0, completion_tokens: 0, cost: 0 },
    }
    sums.set(name, sum)
    sum.requests += 1
    sum.prompt_tokens += row.prompt_tokens
    sum.completion_tokens += row.completion_tokens
    sum.cost += row.cost
  }
  return [...sums].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, sum]) => sum)
}

/** Adds requests of another gateway to the log and to the sums of usage. They are not in the ledger. */
export async function addUsage(trx: Trx, rows: readonly UsageRow[]): Promise<void> {
  for (const chunk of chunksOf(rows, CHUNK)) await trx.insertInto('logs').values(chunk).execute()
  for (const chunk of chunksOf(sumsOf(rows), CHUNK))
    await trx
      .insertInto('rollups')
      .values(chunk)
      .onConflict(conflict =>
        conflict.columns(['bucket', 'user_id', 'token_id', 'channel_id', 'model']).doUpdateSet({
          requests: sql<number>`rollups.requests + excluded.requests`,
          prompt_tokens: sql<number>`rollups.prompt_tokens + excluded.prompt_tokens`,
          completion_tokens: sql<number>`rollups.completion_tokens + excluded.completion_tokens`,
          cost: sql<number>`rollups.cost + excluded.cost`,
        }),
      )
      .execute()
  // After the rollups, as when settled requests are applied: a fold waits for transactions that write them.
  for (const { unit } of UNITS.toSorted((a, b) => a.unit - b.unit)) {
    const starts = [...new Set(rows.map(row => row.created_time - (row.created_time % unit)))]
    for (const start of starts.sort((a, b) => a - b))
      await trx.deleteFrom('rollup_folds').where('unit', '=', unit).where('start', '=', start).execute()
  }
}
