import { createOperations } from '../cli/operations.ts'
import { version } from '../host/version.ts'
import type { Config } from './config.ts'
import { type StoreAndKeys, storeOptions } from './store-and-keys.ts'

/** The operations behind the commands. `announce` invalidates what a running relay has cached. */
export const operationsOf = (
  config: Config,
  { store, keyring, digest, passwords }: StoreAndKeys,
  announce: (targets: readonly string[]) => Promise<void> = async () => {},
) =>
  createOperations({
    announce,
    db: store.db,
    engine: store.engine,
    storeOptions: storeOptions(config),
    version,
    keyring,
    digest,
    passwords,
    now: () => Math.floor(Date.now() / 1000),
    dataDir: config.dataDir,
    anchorFile: config.anchor === 'log' ? undefined : config.anchor.file,
    isSecretInFile: config.keyring === undefined,
  })
