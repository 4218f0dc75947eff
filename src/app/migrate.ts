import { CommandError, type Report } from '../cli/command.ts'
import { migrateToPostgres, retireFile } from '../cli/migrate.ts'
import { openStore } from '../store/engine/store.ts'
import { unusableDatabase } from '../store/engine/unusable-database.ts'
import { type Config, SettingError } from './config.ts'
import { operationsOf } from './operations.ts'
import { openStoreAndKeys, storeOptions } from './store-and-keys.ts'

/** Moves the data of a stopped gateway to PostgreSQL. `target` is the same configuration with the new DATABASE_URL. */
export async function migrate(
  config: Config,
  target: Config,
  print: (line: string) => void,
): Promise<Report> {
  if (config.databaseUrl !== undefined)
    throw new SettingError(
      'DATABASE_URL',
      'is set, so this gateway does not use SQLite: unset it to move its data',
    )
  // Holds the lock of the data directory until the end.
  const source = await openStoreAndKeys(config, { mustExist: true })
  const store = openStore(storeOptions(target))
  let report: Report
  try {
    report = await migrateToPostgres({
      dataDir: config.dataDir,
      target: store,
      verifySource: () => operationsOf(config, source).verify({}),
      async verifyTarget() {
        const copy = await openStoreAndKeys(target, { isLocked: true, isCopy: true })
        try {
          return await operationsOf(target, copy).verify({})
        } finally {
          await copy.close()
        }
      },
      print,
    })
  } catch (error) {
    const reason = unusableDatabase(error)
    throw reason === undefined ? error : new CommandError(`the database of --to cannot be used: ${reason}`)
  } finally {
    await store.close()
    await source.close()
  }
  retireFile(config.dataDir)
  return report
}
