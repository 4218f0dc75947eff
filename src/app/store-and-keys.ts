import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { MOVED_FILE } from '../cli/migrate.ts'
import { makeDirectory } from '../host/directory.ts'
import { isRestoreInterrupted, sweepLeftovers } from '../host/leftovers.ts'
import { DirectoryInUseError, lockDirectory } from '../host/lock.ts'
import { createKeyring, type Keyring } from '../identity/keyring.ts'
import { createPasswords } from '../identity/passwords.ts'
import { newSecret, readSecretFile, writeSecretFile } from '../identity/secret-file.ts'
import { createConfigHistory } from '../manage/config/history.ts'
import { readMeta } from '../store/engine/meta.ts'
import { NewerStoreError, openStore, type Store, type StoreOptions } from '../store/engine/store.ts'
import { isIncompleteCopy } from '../store/engine/store-move.ts'
import { unusableDatabase } from '../store/engine/unusable-database.ts'
import { firstStart, openBodySeal, openChainKey, openDigest, sealPlainHeaders } from './bootstrap.ts'
import { type Config, readKeyring, SettingError } from './config.ts'

const now = () => Math.floor(Date.now() / 1000)

export const storeOptions = ({ databaseUrl, dataDir, durability, workers }: Config): StoreOptions =>
  databaseUrl === undefined
    ? { engine: 'sqlite', path: join(dataDir, 'sluice.db'), fullSync: durability === 'full' }
    : { engine: 'postgres', url: databaseUrl, maxConnections: workers > 1 ? 5 : 9 }

function lockDataDirectory(dataDir: string) {
  try {
    makeDirectory(dataDir)
    return lockDirectory(dataDir)
  } catch (error) {
    if (error instanceof DirectoryInUseError) throw error
    throw new SettingError(
      'SLUICE_DATA',
      `must be a directory that the gateway can use: ${(error as Error).message}`,
    )
  }
}

/** Must be called before the store is opened, because opening creates the file. */
const lacksDatabaseFile = ({ databaseUrl, dataDir }: Config) =>
  databaseUrl === undefined && !existsSync(join(dataDir, 'sluice.db'))

/** `sluice migrate` has renamed the database file. A start without DATABASE_URL would create an empty gateway beside it. */
function refuseMoved({ dataDir }: Config): void {
  if (existsSync(join(dataDir, MOVED_FILE)))
    throw new SettingError(
      'DATABASE_URL',
      `must be set: the data in ${dataDir} was moved to PostgreSQL. To go back to the old data, rename ${MOVED_FILE} to sluice.db`,
    )
}

/** Creates or upgrades the tables, which needs more rights than a query. */
async function migrateSchema({ engine, migrate }: Store): Promise<void> {
  try {
    await migrate()
  } catch (error) {
    const reason = engine === 'postgres' ? unusableDatabase(error) : undefined
    if (reason === undefined) throw error
    throw new SettingError('DATABASE_URL', `cannot be used: ${reason}`)
  }
}

const interruptedRestore = ({ dataDir }: Config) =>
  new SettingError(
    'SLUICE_DATA',
    `has a restore that was interrupted (${dataDir}): run "sluice restore FILE" again`,
  )

/** A start would settle nothing of the restored journals, and create an empty gateway beside them. */
async function refuseInterruptedRestore(config: Config, store: Store): Promise<void> {
  if (!isRestoreInterrupted(config.dataDir)) return
  // The rows of a restore into PostgreSQL are committed together, before its last file is deleted.
  const isFilled = (await hasData(store)) && (await readMeta(store.db, 'digest_key')) !== undefined
  if (!isFilled) throw interruptedRestore(config)
}

const noGateway = ({ databaseUrl, dataDir }: Config) =>
  databaseUrl === undefined
    ? new SettingError('SLUICE_DATA', `contains no gateway yet (${dataDir}): run "sluice start" first`)
    : new SettingError('DATABASE_URL', 'contains no gateway yet: run "sluice start" first')

/** Whether the store has data. The first query to PostgreSQL also shows whether DATABASE_URL is right. */
async function hasData(store: Store): Promise<boolean> {
  try {
    return await store.isInitialised()
  } catch (error) {
    if (store.engine === 'sqlite' || error instanceof NewerStoreError) throw error
    throw new SettingError('DATABASE_URL', `cannot be used: ${(error as Error).message}`)
  }
}

const SECRET_FILE = 'SLUICE_DATA/secret'

export type MasterSecret = {
  /** Newest first. */
  readonly secrets: readonly string[]
  /** For messages. */
  readonly source: string
  readonly isNew: boolean
}

/** SLUICE_SECRET, else the secret file, else a new secret. Existing data needs the secret it is encrypted with. */
export function masterSecret({ keyring, dataDir }: Config, isInitialised: boolean): MasterSecret {
  if (keyring !== undefined) return { secrets: keyring, source: 'SLUICE_SECRET', isNew: false }
  const stored = readSecretFile(dataDir)
  if (stored !== undefined)
    return { secrets: readKeyring(stored, SECRET_FILE), source: SECRET_FILE, isNew: false }
  if (isInitialised)
    throw new SettingError(
      'SLUICE_SECRET',
      `is not set and ${join(dataDir, 'secret')} is missing, but the database is encrypted with a secret: set it, or restore the file`,
    )
  return { secrets: [newSecret()], source: SECRET_FILE, isNew: true }
}

/** Migrates the schema. On the first start it also creates the keys and the root user. */
async function prepareStore(config: Config, store: Store, keyring: Keyring, source: string) {
  const { db } = store
  await migrateSchema(store)
  await openChainKey(db, keyring, now)
  const passwords = createPasswords(config.passwordCost)
  const rootPassword = await firstStart({ config, db, keyring, passwords, now })
  const digest = await openDigest(db, keyring, source)
  if (digest === undefined) throw new Error('the store has no digest key after its first start')
  await sealPlainHeaders(db, keyring)
  await createConfigHistory({ keyring, now }).start(db)
  return { passwords, rootPassword, digest, bodySeal: await openBodySeal(db, keyring) }
}

/**
 * Locks the data directory, opens the store and decrypts its keys. A wrong secret ends this before anything is written.
 * Commands without a running server set `mustExist`. Workers set `isLocked`, because their supervisor holds the lock.
 * `isCopy` opens a copy that is not complete yet.
 */
export async function openStoreAndKeys(
  config: Config,
  { mustExist = false, isLocked = false, isCopy = false } = {},
) {
  if (lacksDatabaseFile(config)) refuseMoved(config)
  if (mustExist && lacksDatabaseFile(config) && !isRestoreInterrupted(config.dataDir)) throw noGateway(config)
  const lock = isLocked ? { release() {} } : lockDataDirectory(config.dataDir)
  const isNewFile = lacksDatabaseFile(config)
  // Opening the store would create its file.
  if (isNewFile && isRestoreInterrupted(config.dataDir)) {
    lock.release()
    throw interruptedRestore(config)
  }
  const store = openStore(storeOptions(config))
  const close = async () => {
    await store.close()
    lock.release()
  }
  try {
    if (!isNewFile) await refuseInterruptedRestore(config, store)
    if (!isLocked) sweepLeftovers(config.dataDir)
    const isInitialised = !isNewFile && (await hasData(store))
    if (isInitialised && !isCopy && (await isIncompleteCopy(store.db)))
      throw new SettingError('DATABASE_URL', 'contains an incomplete copy: repeat "sluice migrate --to …"')
    if (mustExist && !isInitialised) throw noGateway(config)
    const secret = masterSecret(config, isInitialised)
    const keyring = createKeyring(secret.secrets)
    if (isInitialised) await openDigest(store.db, keyring, secret.source)
    else if (secret.isNew) writeSecretFile(config.dataDir, secret.secrets)
    return { store, keyring, close, ...(await prepareStore(config, store, keyring, secret.source)) }
  } catch (error) {
    await close()
    throw error
  }
}

export type StoreAndKeys = Awaited<ReturnType<typeof openStoreAndKeys>>
