import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createConditions, type MachineFacts } from '../../src/app/alert-conditions.ts'
import { createMailer } from '../../src/app/alert-mail.ts'
import { createAlertSender } from '../../src/app/alert-sender.ts'
import { createAlerts } from '../../src/app/alerts.ts'
import { readConfig } from '../../src/app/config.ts'
import { createLog } from '../../src/app/log.ts'
import { openStoreAndKeys } from '../../src/app/store-and-keys.ts'
import {
  type AlertKind,
  defaultRuleOptions,
  type RuleOptions,
  type TargetOptions,
  type TargetSecrets,
  type TargetType,
} from '../../src/domain/alert.ts'
import { UnreachableError } from '../../src/domain/errors.ts'
import { createAddressGuard } from '../../src/http/address-guard.ts'
import { createNetwork } from '../../src/http/network.ts'
import { createOutboundClient } from '../../src/http/outbound.ts'
import { transact } from '../../src/store/engine/store.ts'
import { insertRule } from '../../src/store/records/alert-rules.ts'
import { insertTarget } from '../../src/store/records/alert-targets.ts'
import type { WorkerExit } from '../../src/workers/messages.ts'
import type { EngineName } from './gateway.ts'
import { createDatabase } from './postgres.ts'

/** A store with alerts whose clock the test moves. The network is real. */
export async function openAlertWorld(engine: EngineName) {
  const dataDir = mkdtempSync(join(tmpdir(), 'sluice-alerts-'))
  const database = engine === 'postgres' ? await createDatabase() : undefined
  const config = readConfig({
    SLUICE_DATA: dataDir,
    SLUICE_ROOT_PASSWORD: 'test root password',
    ...(database ? { DATABASE_URL: database.url } : {}),
  })
  const storeAndKeys = await openStoreAndKeys(config)
  const { store, keyring } = storeAndKeys
  const { db } = store
  const guard = createAddressGuard({ policy: { allowPrivate: true }, onRefused() {} })
  const outbound = createOutboundClient(createNetwork({ guard }))
  const clock = { now: Math.floor(Date.now() / 1000) }
  const facts = { freeDiskBytes: 1e12, lagS: 0, exits: [] as WorkerExit[], isStoreDown: false }
  /** The store as a machine sees it: it fails while it is down. */
  const fallibleDb = new Proxy(db, {
    get(target, name) {
      if (facts.isStoreDown) throw new UnreachableError(new Error('the store is down'))
      const value = Reflect.get(target, name)
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
  const send = createAlertSender({
    outbound,
    sendMail: createMailer({ db, keyring }),
    keyring,
    nowMs: () => clock.now * 1000,
  })

  /** The alerts of a machine. Several share the store, or follow each other. */
  function createMachine(name = 'host-1') {
    const machine: MachineFacts = {
      name,
      freeDiskBytes: () => facts.freeDiskBytes,
      journalLagS: async () => facts.lagS,
      workerExits: async () => facts.exits,
    }
    const observe = createConditions({ db: fallibleDb, machine })
    const log = createLog('silent')
    return createAlerts({
      db: fallibleDb,
      engine,
      observe,
      send,
      machine: name,
      holder: name,
      now: () => clock.now,
      log,
    })
  }

  return {
    db,
    dataDir,
    keyring,
    storeAndKeys,
    clock,
    facts,
    createMachine,
    /** Removes all rules, targets, states and messages. */
    async clear(): Promise<void> {
      for (const table of [
        'alert_rules',
        'alert_targets',
        'alert_states',
        'alert_deliveries',
        'alert_leases',
      ] as const)
        await db.deleteFrom(table).execute()
    },
    addRule: (kind: AlertKind, options: Partial<RuleOptions> = {}) =>
      transact(db, trx =>
        insertRule(trx, {
          name: `${kind} ${Math.random()}`,
          kind,
          enabled: 1,
          options: JSON.stringify({ ...defaultRuleOptions(kind), for_seconds: 0, ...options }),
          created_time: clock.now,
        }),
      ),
    addTarget: (type: TargetType, secrets: Partial<TargetSecrets>, options: Partial<TargetOptions> = {}) =>
      transact(db, trx =>
        insertTarget(
          trx,
          {
            name: `${type} ${Math.random()}`,
            type,
            enabled: 1,
            options: JSON.stringify({ language: 'en', group_seconds: 0, to: [], chat_id: '', ...options }),
            hints: '{}',
            created_time: clock.now,
          },
          id =>
            keyring.seal(JSON.stringify({ url: '', secret: '', bot_token: '', ...secrets }), {
              table: 'alert_targets',
              row: id,
              field: 'secrets',
            }),
        ),
      ),
    async close(): Promise<void> {
      await outbound.close()
      await storeAndKeys.close()
      await database?.drop()
      rmSync(dataDir, { recursive: true, force: true })
    },
  }
}

export type AlertWorld = Awaited<ReturnType<typeof openAlertWorld>>
