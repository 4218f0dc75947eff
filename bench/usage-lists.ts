import { sql } from 'kysely'
import type { Engine } from '../src/store/engine/schema.ts'
import type { Db } from '../src/store/engine/store.ts'
import type { Api } from '../test/support/gateway.ts'
import { DAYS } from './usage-store.ts'

/** Any page of the console at ten million requests (docs/reference/console.md: Volume). */
export const PAGE_GOAL_MS = 300
const RUNS = 5
const DAY_S = 86_400
const QUARTER_S = 900

export type Place = { readonly time: number; readonly id: number; readonly request_id: string }
type Subject = readonly [name: string, path: string]

/** Every GET route of the console that grows with the number of requests, with each filter and some combinations. */
export function subjects(now: number, place: Place): Subject[] {
  const since = (seconds: number) => `start_timestamp=${now - seconds}`
  const day = since(DAY_S)
  const month = since(30 * DAY_S)
  const deep = `cursor=${place.time}-${place.id}`
  const to = Math.ceil(now / QUARTER_S) * QUARTER_S
  const span = (days: number) => `from=${to - days * DAY_S}&to=${to}`
  const tz = 'tz=Asia/Shanghai'
  const filters: readonly Subject[] = [
    ['no filter', ''],
    ['a day', day],
    ['30 days', month],
    ['failed', 'type=5'],
    ['a model', 'model_name=model-1'],
    ['a token', 'token_name=token 7'],
    ['a user', 'username=person-5'],
    ['a channel', 'channel=4'],
    ['a rare model, 30 days', `model_name=model-4999&${month}`],
    ['model and channel', 'model_name=model-1&channel=4'],
    ['model, user, failed', `model_name=model-7&username=person-5&type=5`],
    ['token, model, 30 days', `token_name=token 7&model_name=model-9&${month}`],
    ['a pattern', 'model_name=%25el-3%25'],
    ['a request', `request_id=${place.request_id}`],
  ]
  const finer: readonly Subject[] = [
    ['failed, 30 days', `status=failed&${month}`],
    ['retried', 'min_attempts=2'],
    ['slow', 'min_ms=9000'],
    ['dear', 'min_cost=0.0012'],
    ['counted', 'source=counted'],
    ['slow first token, a model', 'min_first_ms=2000&model_name=model-1'],
    ['two models', 'models=model-1,model-4999'],
    ['all but a model', 'not_models=model-1'],
    ['an error', 'error_code=upstream_error'],
    ['a pattern of users', 'username=person-1%25'],
    ['four users', 'user_ids=1,2,3,500'],
    ['the busiest token', 'token_id=1'],
    ['busiest token, a model', 'token_id=1&model_name=model-0'],
    ['busiest user, a channel', 'user_id=1&channel=1'],
  ]
  /** The busiest: one user of 600 makes an eighth of all requests, and one of that user's tokens half of those. */
  const busy = [
    ['token', 'token_id=1'],
    ['token, a model', 'token_id=1&model=model-0'],
    ['user, a model', 'user_id=1&model=model-0'],
    ['user, a channel', 'user_id=1&channel_id=1'],
  ] as const
  return [
    ...filters.map(([name, filter]): Subject => [`rows: ${name}`, `/api/log/walk?limit=50&${filter}`]),
    ...filters
      .slice(0, 8)
      .map(
        ([name, filter]): Subject => [`rows far back: ${name}`, `/api/log/walk?limit=50&${deep}&${filter}`],
      ),
    ...filters.map(([name, filter]): Subject => [`paged: ${name}`, `/api/log/?page_size=50&${filter}`]),
    ['paged: own', '/api/log/self?page_size=50'],
    ['paged: page 1,000', '/api/log/?page_size=100&p=1000'],
    ...filters.map(([name, filter]): Subject => [`stat: ${name}`, `/api/log/stat?${filter}`]),
    ['stat: own', '/api/log/self/stat'],
    ['series: a day by hour', `/api/usage/series?${span(1)}&step=3600&${tz}`],
    ['series: a week by model', `/api/usage/series?${span(7)}&step=21600&${tz}&group_by=model`],
    ['series: 30 days', `/api/usage/series?${span(30)}&step=86400&${tz}`],
    ['series: 30 days by model', `/api/usage/series?${span(30)}&step=86400&${tz}&group_by=model`],
    [
      'series: 30 days by channel',
      `/api/usage/series?${span(30)}&step=86400&tz=Asia/Kolkata&group_by=channel`,
    ],
    ['API only: 30 days by token', `/api/usage/series?${span(30)}&step=86400&${tz}&group_by=token`],
    ['API only: 30 days by user', `/api/usage/series?${span(30)}&step=86400&${tz}&group_by=user`],
    ['times: a day by hour', `/api/usage/times?${span(1)}&step=3600&${tz}`],
    ['times: 30 days', `/api/usage/times?${span(30)}&step=86400&${tz}`],
    ['times: 30 days of a model', `/api/usage/times?${span(30)}&step=86400&${tz}&model=model-1`],
    ['times: 30 days of a user', `/api/usage/times?${span(30)}&step=86400&${tz}&user_id=1`],
    ['series: 90 days by model', `/api/usage/series?${span(DAYS)}&step=86400&${tz}&group_by=model`],
    ['series: 30 days of a user', `/api/usage/series?${span(30)}&step=86400&${tz}&user_id=1&group_by=model`],
    ['series: 30 days of a model', `/api/usage/series?${span(30)}&step=86400&${tz}&model=model-1`],
    [
      'series: 30 days of a channel',
      `/api/usage/series?${span(30)}&step=86400&${tz}&channel_id=4&group_by=model`,
    ],
    [
      'series: 90 days, channel and model',
      `/api/usage/series?${span(DAYS)}&step=86400&tz=Asia/Kolkata&channel_id=1&model=model-0`,
    ],
    ...busy.map(
      ([name, filter]): Subject => [
        `series: 90 days, ${name}`,
        `/api/usage/series?${span(DAYS)}&step=86400&${tz}&${filter}`,
      ],
    ),
    ...(['model', 'token', 'channel', 'user'] as const).flatMap((by): Subject[] => [
      [`top 30 days by ${by}`, `/api/usage/top?${span(30)}&by=${by}`],
      [`top 90 days by ${by}`, `/api/usage/top?${span(DAYS)}&by=${by}`],
    ]),
    ...filters.map(([name, filter]): Subject => [`totals: ${name}`, `/api/log/totals?${filter}`]),
    ...filters
      .filter(([name]) => name !== 'a request')
      .flatMap(([name, filter]) =>
        (['model', 'token', 'channel', 'user', 'status', 'error'] as const).map(
          (by): Subject => [`facet ${by}: ${name}`, `/api/log/facets?by=${by}&${filter}`],
        ),
      ),
    ...filters.map(([name, filter]): Subject => [`times: ${name}`, `/api/log/times?${filter}`]),
    ...finer.flatMap(([name, filter]): Subject[] => [
      [`times: ${name}`, `/api/log/times?${filter}`],
      [`rows: ${name}`, `/api/log/walk?limit=50&${filter}`],
      [`totals: ${name}`, `/api/log/totals?${filter}`],
      [`facet model: ${name}`, `/api/log/facets?by=model&${filter}`],
    ]),
    ['export, first bytes', `/api/log/export?format=csv`],
    ['export, first bytes, failed', `/api/log/export?format=jsonl&status=failed`],
    ['health of channels', '/api/channel/health'],
    ['models', '/api/model/'],
    ['attention', '/api/attention'],
    ['channels', '/api/channel/?page_size=50'],
    ['channels: a text', '/api/channel/search?keyword=199&page_size=50'],
    ['tokens', '/api/token/?page_size=50'],
    ['users', '/api/user/?page_size=50'],
    ['users: a text', '/api/user/search?keyword=person-19&page_size=50'],
    ['a request whole', `/api/log/request/${place.request_id}`],
    ['ledger', '/api/ledger/health'],
    ['audit', '/api/audit/?page_size=50'],
    ['prices', '/api/price/?page_size=50'],
    ['sessions', '/api/user/sessions'],
    ['settings', '/api/setting/'],
  ]
}

/** A row in the middle of the log, as after much paging. */
export async function middleOf(db: Db, now: number) {
  const { rows } = await sql<Place>`select created_time as time, id, request_id from logs
    where created_time <= ${now - (DAYS / 2) * DAY_S} order by created_time desc, id desc limit 1`.execute(db)
  return rows[0] ?? { time: now, id: 1, request_id: '' }
}

type Timed = { readonly api: Api; readonly url: string; readonly token: string; readonly engine: Engine }

export async function timeSubjects(
  { api, url, token, engine }: Timed,
  all: readonly Subject[],
): Promise<void> {
  /** Reads only the start of a file. */
  async function firstBytes(path: string): Promise<number> {
    const answer = await fetch(`${url}${path}`, { headers: { authorization: `Bearer ${token}` } })
    const reader = answer.body?.getReader()
    // The header line of a CSV file is sent before any row is read.
    await reader?.read()
    await reader?.read()
    await reader?.cancel()
    return answer.status
  }

  console.log(`\npages on ${engine}, first and median of ${RUNS} in ms (goal < ${PAGE_GOAL_MS})`)
  for (const [name, path] of all) {
    const times: number[] = []
    let status = 0
    for (let run = 0; run < RUNS; run++) {
      const start = performance.now()
      status = path.includes('/export') ? await firstBytes(path) : (await api('GET', path)).status
      times.push(performance.now() - start)
    }
    const [first = 0] = times
    const median = times.toSorted((a, b) => a - b)[Math.floor(RUNS / 2)] ?? 0
    const figures =
      status === 200
        ? `${first.toFixed(0).padStart(7)} ${median.toFixed(1).padStart(8)}${median < PAGE_GOAL_MS ? '' : ' !'}`
        : `  (${status})`
    console.log(`${name.padEnd(36)}${figures}`)
  }
}
