import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { sql } from 'kysely'
import type { Finding } from '../../cli/finding.ts'
import { CHANNEL_STATUS } from '../../domain/channel.ts'
import { type ChannelNetwork, readChannelNetwork } from '../../http/channel-network.ts'
import { openSetting } from '../../identity/channel-setting.ts'
import { createKeyring } from '../../identity/keyring.ts'
import { originsOf } from '../../identity/secret-destination.ts'
import { MIGRATION_NAMES, openStore, type Store } from '../../store/engine/store.ts'
import { openDigest } from '../bootstrap.ts'
import type { Config } from '../config.ts'
import { masterSecret, storeOptions } from '../store-and-keys.ts'

const CLOCK = 'clock'
const SLOW_S = 5
const WRONG_S = 60

/** What the network checks need of the store. */
export type StoreFacts = { readonly providers: readonly ProviderAddress[] }

/** An origin of enabled channels, and how these connect to it. */
export type ProviderAddress = { readonly origin: string; readonly network: ChannelNetwork | undefined }

export function clockFinding(source: string, differenceS: number): Finding {
  const rounded = Math.round(differenceS)
  const message = `${source}: ${Math.abs(rounded)} s ${rounded < 0 ? 'behind' : 'ahead'}`
  if (Math.abs(rounded) < SLOW_S) return { check: CLOCK, level: 'ok', message: `agrees with ${source}` }
  return {
    check: CLOCK,
    level: Math.abs(rounded) < WRONG_S ? 'warning' : 'failure',
    message: `the clock of this machine differs from ${message}; use NTP`,
  }
}

async function databaseVersion({ db, engine }: Store): Promise<string> {
  if (engine === 'sqlite') {
    const { rows } = await sql<{ version: string }>`select sqlite_version() as version`.execute(db)
    return `SQLite ${rows[0]?.version}`
  }
  const { rows } = await sql<{ server_version: string }>`show server_version`.execute(db)
  return `PostgreSQL ${rows[0]?.server_version}`
}

async function examineSchema(store: Store): Promise<Finding> {
  const name = await databaseVersion(store)
  const { rows } = await sql<{ name: string }>`select name from kysely_migration`.execute(store.db)
  const applied = new Set(rows.map(row => row.name))
  const pending = MIGRATION_NAMES.filter(migration => !applied.has(migration))
  return {
    check: 'database',
    level: 'ok',
    message:
      pending.length === 0
        ? `${name}, schema ${MIGRATION_NAMES.at(-1)}`
        : `${name}; the next start runs ${pending.length} migrations (${pending.join(', ')}): back up first`,
  }
}

/** docs/operating/postgresql.md: Partitions. */
const MIN_LOCKS = 256

/** A query that cannot skip partitions locks all of them and their indexes. */
export const locksFinding = (setting: number): Finding | undefined =>
  setting >= MIN_LOCKS
    ? undefined
    : {
        check: 'database',
        level: 'warning',
        message: `max_locks_per_transaction of PostgreSQL is ${setting}; set ${MIN_LOCKS} in postgresql.conf and restart PostgreSQL, because queries over many partitions need more locks`,
      }

async function examineLocks({ db, engine }: Store): Promise<readonly Finding[]> {
  if (engine === 'sqlite') return []
  const { rows } = await sql<{ max_locks_per_transaction: string }>`show max_locks_per_transaction`.execute(
    db,
  )
  const finding = locksFinding(Number(rows[0]?.max_locks_per_transaction))
  return finding ? [finding] : []
}

/** Records are written with the time of the gateway, so a clock before the last record went back. */
async function examineClock({ db, engine }: Store): Promise<readonly Finding[]> {
  const nowS = Date.now() / 1000
  if (engine === 'postgres') {
    const { rows } = await sql<{
      time: number
    }>`select extract(epoch from clock_timestamp())::float8 as time`.execute(db)
    return [clockFinding('PostgreSQL', nowS - Number(rows[0]?.time))]
  }
  const last = await db.selectFrom('audit').select('time').orderBy('seq', 'desc').limit(1).executeTakeFirst()
  if (last === undefined || last.time <= nowS + SLOW_S)
    return [{ check: CLOCK, level: 'ok', message: 'is not before the last audit record' }]
  return [
    {
      check: CLOCK,
      level: 'failure',
      message: `is ${Math.round(last.time - nowS)} s before the last audit record; use NTP`,
    },
  ]
}

async function examineSecret(config: Config, { db }: Store): Promise<Finding> {
  const check = 'master secret'
  try {
    const { secrets, source } = masterSecret(config, true)
    await openDigest(db, createKeyring(secrets), source)
    if (config.databaseUrl !== undefined && source !== 'SLUICE_SECRET')
      return {
        check,
        level: 'warning',
        message: `${source} decrypts the database; gateways on other machines need it as SLUICE_SECRET`,
      }
    return { check, level: 'ok', message: `${source} decrypts the database` }
  } catch (error) {
    return { check, level: 'failure', message: (error as Error).message }
  }
}

/** The whole setting of a channel; with placeholders if the master secret does not decrypt it, which is another finding. */
function settingOf(config: Config, row: Parameters<typeof openSetting>[1]): string {
  try {
    return openSetting(createKeyring(masterSecret(config, true).secrets), row)
  } catch {
    return row.setting
  }
}

async function listProviders(config: Config, { db }: Store): Promise<readonly ProviderAddress[]> {
  const channels = await db
    .selectFrom('channels')
    .select(['id', 'type', 'base_url', 'setting', 'setting_sealed', 'header_override', 'param_override'])
    .where('status', '=', CHANNEL_STATUS.enabled)
    .execute()
  const providers = new Map<string, ProviderAddress>()
  for (const row of channels) {
    const network = readChannelNetwork(JSON.parse(settingOf(config, row)))
    for (const origin of originsOf(row))
      if (URL.canParse(origin)) providers.set(JSON.stringify([origin, network]), { origin, network })
  }
  return [...providers.values()]
}

type StoreExamination = { readonly findings: readonly Finding[]; readonly store: StoreFacts | undefined }

const without = (level: Finding['level'], message: string): StoreExamination => ({
  findings: [{ check: 'database', level, message }],
  store: undefined,
})

/** The database, its version and schema, the clock, and the master secret. Opens no file that does not exist. */
export async function examineStore(config: Config): Promise<StoreExamination> {
  if (config.databaseUrl === undefined && !existsSync(join(config.dataDir, 'sluice.db')))
    return without('ok', 'SQLite; there is no database yet, the first start creates it')
  const store = openStore(storeOptions(config))
  try {
    if (!(await store.isInitialised())) {
      const { findings, ...rest } = without('ok', 'is empty; the first start creates the tables')
      return { ...rest, findings: [...findings, ...(await examineLocks(store))] }
    }
    const findings = [
      await examineSchema(store),
      ...(await examineLocks(store)),
      ...(await examineClock(store)),
      await examineSecret(config, store),
    ]
    return { findings, store: { providers: await listProviders(config, store) } }
  } catch (error) {
    return without('failure', (error as Error).message)
  } finally {
    await store.close()
  }
}
