import { createOperations } from '../cli/operations.ts'
import type { AccountId } from '../domain/account.ts'
import { SYSTEM } from '../domain/actor.ts'
import { ROLE } from '../domain/role.ts'
import { version } from '../host/version.ts'
import { refuseUrl } from '../http/upstream-address.ts'
import { createCanaryCommands } from '../manage/canary/commands.ts'
import { createConfigApply } from '../manage/config/apply.ts'
import { createConfigExport } from '../manage/config/export.ts'
import { createConfigHistory } from '../manage/config/history.ts'
import { createRevisionReader } from '../manage/config/revisions.ts'
import { createRollbackCommand } from '../manage/config/rollback-command.ts'
import { createImport } from '../manage/import/run.ts'
import { createExplainRequest } from '../manage/usage/explain.ts'
import type { Config } from './config.ts'
import { addressPolicyOf } from './network.ts'
import { type StoreAndKeys, storeOptions } from './store-and-keys.ts'

/** The operator of the machine may see every request. */
const OPERATOR = { id: 0, role: ROLE.root }

const nowS = () => Math.floor(Date.now() / 1000)

/** What the operations need of the gateway of this process. */
type RunningGateway = {
  /** Invalidates what the relay has cached. */
  announce(targets: readonly string[]): Promise<unknown>
  /** Settles the requests of an account, and returns its leases to the store. */
  flushAndReturn(account: AccountId): Promise<void>
  /** Its workers read the secret in the data directory again; absent if it has none. */
  reloadSecret?: (() => Promise<void>) | undefined
  /** Where it listens. */
  address?(): string | undefined
}

const NOT_RUNNING: RunningGateway = { announce: async () => {}, flushAndReturn: async () => {} }

/** The operations behind the commands. */
export const operationsOf = (
  config: Config,
  { store, keyring, digest, passwords }: StoreAndKeys,
  { announce, flushAndReturn, reloadSecret, address }: RunningGateway = NOT_RUNNING,
) => {
  const explain = createExplainRequest({
    db: store.db,
    engine: store.engine,
    now: nowS,
    // Cooldowns are known to the workers only.
    conditions: async () => [],
  })
  const policy = addressPolicyOf(config)
  const importFrom = createImport({
    announce,
    db: store.db,
    keyring,
    digest,
    now: nowS,
    policy,
  })
  const configuration = {
    db: store.db,
    engine: store.engine,
    now: nowS,
    keyring,
    digest,
    passwords,
    announce,
    flushAndReturn,
    addressPolicy: policy,
    outbound: { refuseUrl: (url: string) => refuseUrl(url, policy) },
  }
  return createOperations({
    configuration: {
      apply: createConfigApply(configuration),
      export: createConfigExport(configuration),
      revisions: createRevisionReader(store.db),
      rollback: createRollbackCommand(configuration),
      canaries: createCanaryCommands(configuration),
    },
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
    async importFrom(request) {
      try {
        return await importFrom(request)
      } finally {
        // An import changes the configuration in many transactions, which are one revision, also if it ends halfway.
        if (!request.dryRun)
          await createConfigHistory(configuration).recordAll(store.db, {
            actor: { id: 0, username: SYSTEM },
            via: 'command:import',
            reason: `import from ${request.kind}`,
          })
      }
    },
    address,
    dataDir: config.dataDir,
    anchorFile: config.anchor === 'log' ? undefined : config.anchor.file,
    isSecretInFile: config.keyring === undefined,
    reloadSecret,
  })
}
