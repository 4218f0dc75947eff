import { newSecret, readSecretFile, writeSecretFile } from '../identity/secret-file.ts'
import { sealedUnderOlder } from '../store/sealed.ts'
import type { Trx } from '../store/store.ts'
import { CommandError, type OperationDeps, type Report } from './command.ts'

const BATCH = 200

/**
 * Seals everything under the newest secret, in small transactions, while requests go on. It can be interrupted
 * anywhere and run again: both secrets open what is there until the last text has moved.
 */
export function createRotation(
  { db, keyring, dataDir, isSecretKept }: OperationDeps,
  record: (trx: Trx, action: string, target: string) => Promise<void>,
) {
  async function reseal(): Promise<number> {
    let count = 0
    for (;;) {
      const texts = await sealedUnderOlder(db, keyring.newestPrefix(), BATCH)
      if (texts.length === 0) return count
      await db.transaction().execute(async trx => {
        for (const { place, sealed, replace } of texts)
          await replace(trx, keyring.seal(keyring.open(sealed, place), place))
      })
      count += texts.length
    }
  }

  return async function rotateSecret(): Promise<Report> {
    if (isSecretKept) {
      const kept = (readSecretFile(dataDir) ?? '').split(',')
      // A rotation that was cut short left two secrets behind: finish it before starting another.
      if (kept.length === 1) {
        const secrets = [newSecret(), ...kept]
        writeSecretFile(dataDir, secrets)
        keyring.replace(secrets)
      }
    } else if (keyring.size() < 2) {
      throw new CommandError(
        'SLUICE_SECRET holds one secret. Start the server with SLUICE_SECRET=new,old, then run this again',
      )
    }
    const count = await reseal()
    await db.transaction().execute(trx => record(trx, 'secret.rotate', 'secret'))
    if (isSecretKept) {
      const [newest] = (readSecretFile(dataDir) ?? '').split(',')
      if (newest) {
        writeSecretFile(dataDir, [newest])
        keyring.replace([newest])
      }
    }
    const next = isSecretKept
      ? 'the old secret is gone from SLUICE_DATA/secret'
      : 'the old secret is no longer needed: take it out of SLUICE_SECRET at the next start'
    return { ok: true, lines: [`${count} sealed texts moved to the newest secret`, next] }
  }
}
