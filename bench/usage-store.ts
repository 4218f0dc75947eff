import { type RawBuilder, sql } from 'kysely'
import type { Engine } from '../src/store/engine/schema.ts'
import type { Db } from '../src/store/engine/store.ts'

/** A gateway that has been busy for a quarter of a year (docs/reference/console.md: Volume). */
export const SIZES = { users: 2_000, tokens: 10_000, channels: 2_000, models: 5_000 }
export const DAYS = 90
const DAY_S = 86_400
const QUARTER_HOUR_S = 900
/** Rows per statement: the pool gives up on PostgreSQL after 30 s. */
const BATCH = 250_000
/** The few that have nearly all of the traffic. */
const BUSY_TOKENS = 3_000
const BUSY_MODELS = 40
const BUSY_CHANNELS = 60

type Number_ = RawBuilder<number>
const whole = (value: number) => sql.lit(value)

/**
 * Reproducible random numbers, in arithmetic that both engines have: 0 to 99,999 for the nth row, evenly distributed for each
 * multiplier.
 */
const PRIME = 2_147_483_647
const chance = (multiplier: number): Number_ => sql`((n * ${whole(multiplier)}) % ${whole(PRIME)} % 100000)`
/** A skewed distribution over `count`: the cube of an even one. */
const skewed = (count: number, draw: Number_): Number_ =>
  sql`(${whole(count)} * ${draw} * ${draw} * ${draw} / 1000000000000000)`

const DRAWS = {
  token: chance(1_103_515_245),
  model: chance(1_299_709),
  channel: chance(15_485_863),
  size: chance(32_452_843),
  fate: chance(49_979_687),
  wait: chance(67_867_967),
} as const

/** Four fifths of a day's requests are in one half of it. */
const secondOfDay = (share: Number_): Number_ => sql`case
  when ${share} < 1000 then ${share} * 28800 / 1000
  when ${share} < 9000 then 28800 + (${share} - 1000) * 43200 / 8000
  else 72000 + (${share} - 9000) * 14400 / 1000 end`

const series = (engine: Engine, from: number, to: number) =>
  engine === 'postgres'
    ? sql`select n::bigint as n from generate_series(${whole(from)}::bigint, ${whole(to)}::bigint) as g(n)`
    : sql`with recursive g(n) as (select ${whole(from)} union all select n + 1 from g where n < ${whole(to)})
        select n from g`

/** The rows `from` to `to` of `count`, ordered by time, up to now. */
function fillLogs(engine: Engine, from: number, to: number, count: number, first: number) {
  const perDay = sql<number>`${whole(Math.ceil(count / DAYS))}`
  const day = sql<number>`(n / ${perDay})`
  const share = sql<number>`((n % ${perDay}) * 10000 / ${perDay})`
  const isError = sql`fate < 2000`
  return sql`insert into logs (created_time, type, user_id, token_id, token_name, channel_id, model_name, content, cost,
      prompt_tokens, completion_tokens, use_time_ms, is_stream, address, request_id, upstream_request_id, other)
    select time, case when ${isError} then 5 else 2 end, 1 + token * ${whole(SIZES.users)} / ${whole(SIZES.tokens)},
      1 + token, 'token ' || token, 1 + channel, 'model-' || model,
      case when ${isError} then 'The provider returned status 503.' else '' end,
      case when ${isError} then 0 else (input * 150 + output * 600) end,
      case when ${isError} then 0 else input end, case when ${isError} then 0 else output end,
      wait + output * 8, case when size % 10 < 7 then 1 else 0 end, '10.0.' || (token / 250) || '.' || (token % 250),
      'req_' || substr('00000000000000000000000000' || n, length(cast(n as text)) + 1, 26), '',
      '{"source":"provider","frt":' || wait || ',"price":"shipped","priced_as":"model-' || model || '"' ||
      case when fate < 7000 then ',"trace":{"attempts":[{"channel":' || (2 + channel) ||
        ',"status":503,"ms":120},{"channel":' || (1 + channel) || ',"status":200,"ms":' || wait ||
        '}],"passed_over":[]}' else '' end || '}'
    from (
      select n, time, token, model, (model * 3 + case when channel_draw < 70000 then 0 when channel_draw < 90000 then 1
          else 2 end) % ${whole(BUSY_CHANNELS)} as channel,
        size, fate, 20 + size * size / 2000000 as input, 10 + size / 200 as output, 150 + wait_draw * wait_draw / 5000000 as wait
      from (
        select n, ${whole(first)} + ${day} * ${whole(DAY_S)} + ${secondOfDay(share)} as time,
          ${skewed(BUSY_TOKENS, DRAWS.token)} as token,
          (${skewed(BUSY_TOKENS, DRAWS.token)} * 7 + ${skewed(4, DRAWS.model)}) % ${whole(BUSY_MODELS)} as model,
          ${DRAWS.channel} as channel_draw, ${DRAWS.size} as size, ${DRAWS.fate} as fate, ${DRAWS.wait} as wait_draw
        from (${series(engine, from, to)}) as numbers
      ) as drawn
    ) as told`
}

const sumUp = (from: number, to: number) => {
  const bucket = sql`created_time - created_time % ${whole(QUARTER_HOUR_S)}`
  return sql`insert into rollups (bucket, user_id, token_id, channel_id, model, requests, failures, prompt_tokens,
      completion_tokens, cost)
    select ${bucket}, user_id, token_id, channel_id, model_name, count(*), sum(case when type = 5 then 1 else 0 end),
      sum(prompt_tokens), sum(completion_tokens), sum(cost)
    from logs where type in (2, 5) and created_time >= ${whole(from)} and created_time < ${whole(to)}
    group by ${bucket}, user_id, token_id, channel_id, model_name`
}

/** Users, tokens and channels, by number. */
function fillOthers(engine: Engine) {
  const numbers = (count: number) => sql`(${series(engine, 0, count - 1)}) as numbers`
  const account = (
    kind: string,
    count: number,
  ) => sql`insert into accounts (kind, owner_id, unlimited, credited, posted,
      held, request_count) select ${sql.lit(kind)}, 1 + n, 0, 1000000000000, 0, 0, 0 from ${numbers(count)}
      where true on conflict do nothing`
  return [
    sql`insert into users (username, username_key, display_name, email, search, password_hash, role, status, user_group,
        limits, created_time, last_login_time)
      select 'person-' || n, 'person-' || n, 'Person ' || n, 'person' || n || '@example.org', 'person-' || n, '', 1, 1,
        'default', '{}', n, 0 from ${numbers(SIZES.users)} where n > 0`,
    account('user', SIZES.users),
    sql`insert into tokens (user_id, name, search, key_digest, key_sealed, key_hint, status, created_time, accessed_time,
        expired_time, model_limits_enabled, models, allow_ips, token_group, limits)
      select 1 + n * ${whole(SIZES.users)} / ${whole(SIZES.tokens)}, 'token ' || n, 'token ' || n, 'digest-' || n, '',
        'sk-ab12…wxyz', 1, n, n, -1, 0, '[]', '[]', 'default', '{}' from ${numbers(SIZES.tokens)}`,
    sql`insert into token_names (token_id, name, user_id) select id, name, user_id from tokens`,
    account('token', SIZES.tokens),
    sql`insert into channels (name, type, base_url, models, model_mapping, priority, weight, status, status_reason, tag,
        channel_group, search, created_time, test_time, response_time, used, auto_ban, test_model, param_override,
        header_override, status_code_mapping, setting, openai_organization, other, remark, limits, is_multi)
      select 'channel ' || n, case when n % 2 = 0 then 1 else 14 end, '', '["model-' || n || '"]', '{}', n % 7, 1,
        case when n % 100 = 99 then 3 else 1 end, '', case when n % 3 = 0 then null else 'tag ' || (n % 100) end,
        'default', 'channel ' || n, n, 0, 0, 0, 1, '', '{}', '{}', '{}', '{}', '', '', '', '{}', 0
      from ${numbers(SIZES.channels)}`,
    sql`insert into channel_keys (channel_id, position, digest, sealed, hint, status, reason, disabled_time)
      select 1 + n, 0, 'digest-' || n, '', 'sk-ab…yz', 1, '', 0 from ${numbers(SIZES.channels)}`,
    sql`insert into channel_models (channel_id, model)
      select 1 + n % ${whole(SIZES.channels)}, 'model-' || n from ${numbers(SIZES.models)}`,
  ]
}

type Index = { readonly name: string; readonly definition: string }

/** The indexes of a table that can be dropped and created again. */
async function indexesOf(db: Db, engine: Engine, table: string): Promise<Index[]> {
  const query =
    engine === 'postgres'
      ? sql<Index>`select indexname as name, indexdef as definition from pg_indexes where tablename = ${table}
          and indexname not in (select conname from pg_constraint)`
      : sql<Index>`select name, sql as definition from sqlite_master where type = 'index' and tbl_name = ${table}
          and sql is not null`
  return (await query.execute(db)).rows
}

/** Bulk inserts are several times faster if the indexes are created at the end. */
async function withoutIndexes(
  db: Db,
  engine: Engine,
  table: string,
  fill: () => Promise<void>,
): Promise<void> {
  const indexes = await indexesOf(db, engine, table)
  for (const { name } of indexes) await sql`drop index ${sql.ref(name)}`.execute(db)
  await fill()
  for (const { definition } of indexes)
    await db.connection().execute(async one => {
      // The gateway itself never waits so long for a statement.
      if (engine === 'postgres') await sql`set statement_timeout = 0`.execute(one)
      // PostgreSQL defines the index of a partitioned table without its partitions.
      await sql.raw(definition.replace(' ON ONLY ', ' ON ')).execute(one)
      if (engine === 'postgres') await sql`reset statement_timeout`.execute(one)
    })
}

/**
 * Writes `count` requests and their aggregates directly into a migrated store that has only its first user. The ledger stays
 * empty: no list reads it for all users.
 */
export async function fillUsage(
  db: Db,
  engine: Engine,
  { count, now }: { readonly count: number; readonly now: number },
): Promise<void> {
  const first = now - DAYS * DAY_S
  for (const statement of fillOthers(engine)) await statement.execute(db)
  await withoutIndexes(db, engine, 'logs', async () => {
    for (let from = 0; from < count; from += BATCH) {
      const to = Math.min(count, from + BATCH) - 1
      await fillLogs(engine, from, to, count, first).execute(db)
    }
  })
  await withoutIndexes(db, engine, 'rollups', async () => {
    for (let day = first - (first % DAY_S); day <= now; day += DAY_S)
      await sumUp(day, day + DAY_S).execute(db)
  })
  // The engines do this by themselves in time; without table statistics, query plans are guesses.
  if (engine === 'postgres') await sql`vacuum analyze`.execute(db)
}
