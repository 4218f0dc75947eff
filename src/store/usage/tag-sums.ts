import { sql } from 'kysely'
import { LOG_TYPE } from '../../domain/log.ts'
import type { Trx } from '../engine/store.ts'
import { hasTags, type LogStore } from './log-filter.ts'
import type { Sums } from './rollups.ts'

/** The newest requests with tags that a sum reads. */
const MAX_SUMMED = 1_000_000

export type TagFilter = {
  readonly from: number
  readonly to: number
  readonly userId: number | undefined
  /** Sums by the values of this tag; undefined: by the names of tags. */
  readonly name: string | undefined
  readonly limit: number
}

type TagSums = { readonly sums: readonly (Sums & { readonly key: string })[]; readonly isExact: boolean }

/** Sums of requests by the names of their tags, or by the values of one of them, by descending cost. */
export async function sumTags({ db, engine }: LogStore, filter: TagFilter): Promise<TagSums> {
  const { from, to, userId, name, limit } = filter
  const newest = sql`
    select type, requests, prompt_tokens, completion_tokens, cost, other from logs
    where ${hasTags(engine)} and created_time >= ${from} and created_time < ${to}
      and type in (${sql.lit(LOG_TYPE.consume)}, ${sql.lit(LOG_TYPE.error)})
      ${userId === undefined ? sql`` : sql`and user_id = ${userId}`}
    order by created_time desc, id desc limit ${sql.lit(MAX_SUMMED)}
  `
  const tags =
    engine === 'postgres'
      ? sql`cross join lateral json_each_text(other::json -> 'tags') as tag(key, value)`
      : sql`cross join json_each(other, '$.tags') as tag`
  const { rows } = await sql<Sums & { readonly key: string }>`
    select ${name === undefined ? sql`tag.key` : sql`tag.value`} as key,
      sum(requests) as requests,
      sum(case when newest.type = ${sql.lit(LOG_TYPE.error)} then requests else 0 end) as failures,
      sum(prompt_tokens) as prompt_tokens, sum(completion_tokens) as completion_tokens, sum(cost) as cost
    from (${newest}) as newest ${tags}
    ${name === undefined ? sql`` : sql`where tag.key = ${name}`}
    group by 1 order by 6 desc, 1 limit ${limit}
  `.execute(db)
  const { rows: counted } = await sql<{ count: number }>`
    select count(*) as count from (${newest}) as counted
  `.execute(db)
  return {
    sums: rows.map(row => ({
      key: row.key,
      requests: Number(row.requests),
      failures: Number(row.failures),
      prompt_tokens: Number(row.prompt_tokens),
      completion_tokens: Number(row.completion_tokens),
      cost: Number(row.cost),
    })),
    isExact: Number(counted[0]?.count ?? 0) < MAX_SUMMED,
  }
}

/** Removes the tags from some rows of deleted users, or of one user. Returns the number of changed rows. */
export async function eraseTags(
  { db, engine }: { readonly db: Trx | LogStore['db']; readonly engine: LogStore['engine'] },
  userId: number | undefined,
  limit: number,
): Promise<number> {
  const owner =
    userId === undefined
      ? sql`user_id in (select users.id from users where users.deleted_time is not null)`
      : sql`user_id = ${userId}`
  const without =
    engine === 'postgres' ? sql`(other::jsonb - 'tags')::text` : sql`json_remove(other, '$.tags')`
  const { numAffectedRows } = await sql`
    update logs set other = ${without}
    where id in (select id from logs where ${hasTags(engine)} and ${owner} limit ${limit})
  `.execute(db)
  return Number(numAffectedRows ?? 0)
}
