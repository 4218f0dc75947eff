import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { sql } from 'kysely'
import { fold } from '../src/domain/text.ts'
import type { Engine } from '../src/store/engine/schema.ts'
import type { Db } from '../src/store/engine/store.ts'
import { createFolding } from '../src/store/usage/folds.ts'
import { type Gateway, ROOT_TOKEN, startGateway } from '../test/support/gateway.ts'
import { startPostgres } from '../test/support/postgres.ts'
import type { Options } from './options.ts'
import { middleOf, subjects, timeSubjects } from './usage-lists.ts'
import { DAYS, fillUsage } from './usage-store.ts'

/** Every list endpoint returns its first and its 1,000th page in less than 50 ms at these sizes. */
const SIZES = { tokens: 100_000, channels: 10_000, users: 100_000, aliases: 10_000, logs: 200_000 }
const GOAL_MS = 50
const RUNS = 7
const ROOT_ID = 1
const CHUNK = 200
const USUAL_REQUESTS = 1_000_000

async function inChunks(count: number, write: (numbers: number[]) => Promise<unknown>): Promise<void> {
  for (let start = 0; start < count; start += CHUNK)
    await write(Array.from({ length: Math.min(CHUNK, count - start) }, (_, i) => start + i))
}

const account = (kind: 'user' | 'token', owner_id: number) =>
  ({ kind, owner_id, unlimited: 0, credited: 0, posted: 0, held: 0, request_count: 0 }) as const

/** Rows as the API would create them, written directly into the store. */
async function seed(db: Db): Promise<void> {
  await db.transaction().execute(async trx => {
    await inChunks(SIZES.users, async numbers => {
      const rows = await trx
        .insertInto('users')
        .values(
          numbers.map(n => ({
            username: `person-${n}`,
            username_key: `person-${n}`,
            display_name: `Person ${n}`,
            email: `person${n}@example.org`,
            search: fold(`person-${n} Person ${n} person${n}@example.org`),
            password_hash: '',
            role: 1,
            status: 1,
            user_group: 'default',
            limits: '{}',
            created_time: n,
            last_login_time: 0,
            deleted_time: null,
          })),
        )
        .returning('id')
        .execute()
      await trx
        .insertInto('accounts')
        .values(rows.map(({ id }) => account('user', id)))
        .execute()
    })
    await inChunks(SIZES.tokens, async numbers => {
      const rows = await trx
        .insertInto('tokens')
        .values(
          numbers.map(n => ({
            user_id: ROOT_ID,
            name: `token ${n}`,
            search: `token ${n}`,
            key_digest: `digest-${n}`,
            key_sealed: '',
            key_hint: 'sk-ab12…wxyz',
            status: 1,
            created_time: n,
            accessed_time: n,
            expired_time: -1,
            model_limits_enabled: 0,
            models: '["gpt-4o-mini"]',
            allow_ips: '[]',
            token_group: 'default',
            limits: '{}',
          })),
        )
        .returning('id')
        .execute()
      await trx
        .insertInto('accounts')
        .values(rows.map(({ id }) => account('token', id)))
        .execute()
    })
    const models = Array.from({ length: 20 }, (_, i) => `model-${i}`)
    await inChunks(SIZES.channels, async numbers => {
      const rows = await trx
        .insertInto('channels')
        .values(
          numbers.map(n => ({
            name: `channel ${n}`,
            type: n % 2 === 0 ? 1 : 14,
            base_url: '',
            models: JSON.stringify(models),
            model_mapping: '{}',
            priority: n % 7,
            weight: 1,
            status: n % 10 === 0 ? 2 : 1,
            status_reason: '',
            tag: n % 3 === 0 ? null : `tag ${n % 500}`,
            channel_group: 'default',
            search: `channel ${n}`,
            created_time: n,
            test_time: 0,
            response_time: 0,
            used: 0,
            auto_ban: 1,
            test_model: '',
            param_override: '{}',
            header_override: '{}',
            status_code_mapping: '{}',
            setting: '{}',
            openai_organization: '',
            other: '',
            remark: '',
            limits: '{}',
            is_multi: 0,
          })),
        )
        .returning('id')
        .execute()
      const keys = rows.map(({ id }) => ({
        channel_id: id,
        position: 0,
        digest: `digest-${id}`,
        sealed: '',
        hint: 'sk-ab…yz',
        status: 1,
        reason: '',
        disabled_time: 0,
      }))
      await trx.insertInto('channel_keys').values(keys).execute()
      const names = rows.flatMap(({ id }) => models.map(model => ({ channel_id: id, model })))
      for (let i = 0; i < names.length; i += 1_000)
        await trx
          .insertInto('channel_models')
          .values(names.slice(i, i + 1_000))
          .execute()
    })
    await inChunks(SIZES.aliases, numbers =>
      trx
        .insertInto('aliases')
        .values(
          numbers.map(n => ({
            name: `alias-${n}`,
            target: 'model-1',
            channel_ids: null,
            status: 1,
            search: `alias-${n}`,
            created_time: n,
          })),
        )
        .execute(),
    )
    await inChunks(SIZES.logs, numbers =>
      trx
        .insertInto('logs')
        .values(
          numbers.map(n => ({
            created_time: n,
            type: 2,
            user_id: ROOT_ID,
            token_id: n % 1000,
            token_name: 'token',
            channel_id: 1,
            model_name: 'model-1',
            content: '',
            cost: n,
            prompt_tokens: 10,
            completion_tokens: 20,
            use_time_ms: 100,
            is_stream: 0,
            address: '',
            request_id: `req_${n}`,
            other: '{}',
          })),
        )
        .execute(),
    )
  })
}

const LISTS = [
  ['/api/token/?', 10],
  ['/api/token/?', 100],
  ['/api/token/search?keyword=9999', 10],
  ['/api/token/search?keyword=nothing-like-it', 10],
  ['/api/user/?', 10],
  ['/api/user/?', 100],
  ['/api/user/search?keyword=person9999', 10],
  ['/api/user/search?keyword=nothing-like-it', 10],
  ['/api/channel/?', 10],
  ['/api/channel/?id_sort=true', 10],
  ['/api/channel/?status=disabled', 10],
  ['/api/channel/?type=14', 10],
  ['/api/channel/?tag_mode=true', 10],
  ['/api/channel/search?keyword=9999', 10],
  ['/api/channel/search?model=model-7', 10],
  ['/api/alias/?', 10],
  ['/api/log/?', 10],
  ['/api/log/self?', 100],
  ['/api/price/?', 10],
  ['/api/audit/?', 10],
  ['/api/user/access_token/?', 10],
] as const

async function timeOf(gateway: Gateway, path: string): Promise<{ medianMs: number; status: number }> {
  const times: number[] = []
  let status = 0
  for (let run = 0; run < RUNS; run++) {
    const start = performance.now()
    status = (await gateway.api('GET', path)).status
    times.push(performance.now() - start)
  }
  return { medianMs: times.sort((a, b) => a - b)[Math.floor(RUNS / 2)] ?? 0, status }
}

async function benchTables(engine: Engine): Promise<void> {
  const gateway = await startGateway({ engine })
  await seed(gateway.db)
  // Autovacuum does this within a minute; without it, index-only scans read every row.
  if (engine === 'postgres') await sql`vacuum analyze`.execute(gateway.db)
  console.log(`\nlists on ${engine}, median of ${RUNS} (goal < ${GOAL_MS} ms)`)
  console.log('path                                              size   page 1   page 1000')
  for (const [path, size] of LISTS) {
    const at = (page: number) =>
      timeOf(gateway, `${path}${path.endsWith('?') ? '' : '&'}p=${page}&page_size=${size}`)
    const first = await at(1)
    const deep = await at(1000)
    const cell = ({ medianMs, status }: typeof first) =>
      status === 200 ? `${medianMs.toFixed(1).padStart(6)}${medianMs < GOAL_MS ? ' ' : '!'}` : `  (${status})`
    console.log(`${path.padEnd(48)} ${String(size).padStart(5)}  ${cell(first)}  ${cell(deep)}`)
  }
  await gateway.close()
}

/** A store with that many requests: a new one, or the one of an earlier run in the folder. */
async function openUsage(engine: Engine, requests: number, folder: string | undefined) {
  if (folder === undefined) {
    const gateway = await startGateway({ engine })
    return { gateway, isFilled: false, keep: () => {}, close: gateway.close }
  }
  const place = resolve(folder, `${engine}-${requests}`)
  const mark = join(place, 'filled')
  const isFilled = existsSync(mark)
  // An interrupted run leaves an incomplete store.
  if (!isFilled) rmSync(place, { recursive: true, force: true })
  mkdirSync(place, { recursive: true })
  const postgres = engine === 'postgres' ? await startPostgres(join(place, 'postgres')) : undefined
  const env = { SLUICE_DATA: join(place, 'data'), ...(postgres && { DATABASE_URL: postgres.url }) }
  // The settings name the store: nothing is created, and nothing is deleted at the end.
  const gateway = await startGateway({ engine: 'sqlite', env })
  return {
    gateway,
    isFilled,
    keep: () => writeFileSync(mark, ''),
    async close() {
      await gateway.close()
      await postgres?.stop()
    },
  }
}

/** Every page of the console on a store with many requests. */
async function benchPages(engine: Engine, requests: number, folder: string | undefined): Promise<void> {
  const { gateway, isFilled, keep, close } = await openUsage(engine, requests, folder)
  const { db } = gateway
  const now = Math.floor(Date.now() / 1000)
  const startedMs = performance.now()
  if (!isFilled) await fillUsage(db, engine, { count: requests, now })
  const folding = createFolding({
    db,
    engine,
    now: () => now,
    isLeader: () => true,
    pause: async () => {},
    onFailure: error => {
      throw error
    },
  })
  await folding.fold()
  await folding.close()
  if (engine === 'postgres') await sql`vacuum analyze`.execute(db)
  keep()
  const seconds = Math.round((performance.now() - startedMs) / 1000)
  console.log(`\n${engine}: ${requests} requests of ${DAYS} days, written and aggregated in ${seconds} s`)
  await timeSubjects(
    { api: gateway.api, url: gateway.url, token: ROOT_TOKEN, engine },
    subjects(now, await middleOf(db, now)),
  )
  await close()
}

export async function benchLists({
  requests = USUAL_REQUESTS,
  engines,
  keep,
}: Pick<Options, 'requests' | 'engines' | 'keep'>): Promise<void> {
  // A kept store is used to measure the pages only.
  if (keep === undefined) for (const engine of engines) await benchTables(engine)
  for (const engine of engines) await benchPages(engine, requests, keep)
}
