import { chmodSync, cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { readConfig } from '../../src/app/config.ts'
import { openStoreAndKeys } from '../../src/app/store-and-keys.ts'
import { ENGINES, type EngineName } from './engines.ts'
import { createDatabase } from './postgres.ts'

export const ROOT_TOKEN = 'test-root-access-token-0001'
export const ROOT_PASSWORD = 'test root password'

/** The settings of a first start with known credentials of root. */
const ROOT_SETTINGS = { SLUICE_ROOT_ACCESS_TOKEN: ROOT_TOKEN, SLUICE_ROOT_PASSWORD: ROOT_PASSWORD }

/** Hashes of passwords that tests make. A hash of the usual cost takes 40 ms of CPU time. */
export const TEST_PASSWORD_COST = { memoryKib: 64, passes: 1 }

/** Names a folder with the data directory of a gateway on each engine, after its first start. */
const FIRST_STARTS_VARIABLE = 'SLUICE_TEST_FIRST_STARTS'
const URL_FILE = 'database-url'

/**
 * Makes a new store on each engine, once for all files of a run: its migrations, its keys and the password of root
 * cost more than a copy.
 */
export async function prepareFirstStarts(): Promise<{ readonly remove: () => void }> {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-first-starts-'))
  for (const engine of ENGINES) {
    const dataDir = join(folder, engine)
    const url = engine === 'postgres' ? (await createDatabase()).url : undefined
    const settings = { SLUICE_DATA: dataDir, ...ROOT_SETTINGS, ...(url && { DATABASE_URL: url }) }
    const config = { ...readConfig(settings), passwordCost: TEST_PASSWORD_COST }
    await (await openStoreAndKeys(config)).close()
    if (url) writeFileSync(join(folder, URL_FILE), url)
  }
  process.env[FIRST_STARTS_VARIABLE] = folder
  return { remove: () => rmSync(folder, { recursive: true }) }
}

/** Whether these settings lead to another first start than the prepared one. */
const changesFirstStart = (env: Readonly<Record<string, string>>) =>
  ['SLUICE_SECRET', ...Object.keys(ROOT_SETTINGS)].some(name => env[name] !== undefined)

export type NewStore = {
  readonly dataDir: string
  readonly database: Awaited<ReturnType<typeof createDatabase>> | undefined
  /** The settings of the gateway that is started on it. */
  readonly settings: Readonly<Record<string, string>>
}

/** A data directory and a database of a test: after their first start where the runner has prepared it, else empty. */
export async function newStore(
  engine: EngineName,
  dataDir: string,
  env: Readonly<Record<string, string>> = {},
): Promise<NewStore> {
  const prepared = changesFirstStart(env) ? undefined : process.env[FIRST_STARTS_VARIABLE]
  if (prepared !== undefined) {
    cpSync(join(prepared, engine), dataDir, { recursive: true })
    chmodSync(dataDir, 0o700)
  }
  const templateUrl = prepared && readFileSync(join(prepared, URL_FILE), 'utf8')
  const database = engine === 'postgres' ? await createDatabase(templateUrl) : undefined
  const settings = {
    SLUICE_DATA: dataDir,
    ...ROOT_SETTINGS,
    ...(database && { DATABASE_URL: database.url }),
  }
  return { dataDir, database, settings }
}
