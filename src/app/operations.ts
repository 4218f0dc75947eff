import { createOperations } from '../cli/operations.ts'
import { ROLE } from '../domain/role.ts'
import { version } from '../host/version.ts'
import { createExplainRequest } from '../manage/usage/explain.ts'
import type { Config } from './config.ts'
import { type StoreAndKeys, storeOptions } from './store-and-keys.ts'

/** The operator of the machine may see every request. */
const OPERATOR = { id: 0, role: ROLE.root }

const nowS = () => Math.floor(Date.now() / 1000)

/**
 * The operations behind the commands. `announce` invalidates what a running relay has cached; `address` is where the
 * gateway of this process listens.
 */
export const operationsOf = (
  config: Config,
  { store, keyring, digest, passwords }: StoreAndKeys,
  announce: (targets: readonly string[]) => Promise<void> = async () => {},
  address?: () => string | undefined,
) => {
  const explain = createExplainRequest({
    db: store.db,
    engine: store.engine,
    now: nowS,
    // Cooldowns are known to the workers only.
    conditions: async () => [],
  })
  return createOperations({
    announce,
    db: store.db,
    engine: store.engine,
    storeOptions: storeOptions(config),
    version,
    keyring,
    digest,
    passwords,
    now: nowS,
    explain: text => explain(text, OPERATOR),
    address,
    dataDir: config.dataDir,
    anchorFile: config.anchor === 'log' ? undefined : config.anchor.file,
    isSecretInFile: config.keyring === undefined,
  })
}
