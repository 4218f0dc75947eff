import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { newSecret, readSecretFile, writeSecretFile } from '../identity/secret-file.ts'
import { lockSealedTables, sealedUnderOlder } from '../store/engine/sealed.ts'
import { type Db, type Trx, transact } from '../store/engine/store.ts'
import { secretsOfOthers } from '../store/records/nodes.ts'
import { CommandError, type OperationDeps, type Report } from './command.ts'

const BATCH = 200

/**
 * Encrypts all stored secrets under the newest master secret, in small transactions, while requests continue. It can be
 * interrupted and run again: the gateway decrypts with both secrets until the last text is re-encrypted.
 */
export function createRotation(
  { db, engine, keyring, dataDir, isSecretInFile, reloadSecret }: OperationDeps,
  record: (trx: Trx, action: string, target: string) => Promise<void>,
) {
  const due = (source: Db) => sealedUnderOlder(source, keyring.newestPrefix(), BATCH)

  async function reseal(trx: Trx, texts: Awaited<ReturnType<typeof due>>): Promise<number> {
    for (const { place, sealed, replace } of texts)
      await replace(trx, keyring.seal(keyring.open(sealed, place), place))
    return texts.length
  }

  async function resealMost(): Promise<number> {
    let count = 0
    for (;;) {
      const texts = await due(db)
      if (texts.length === 0) return count
      count += await transact(db, trx => reseal(trx, texts))
    }
  }

  /** Re-encrypts values of changes that encrypted with the old secret and committed during the rotation. */
  const resealRest = () =>
    transact(db, async trx => {
      await lockSealedTables(trx, engine)
      let count = 0
      for (let texts = await due(trx); texts.length > 0; texts = await due(trx))
        count += await reseal(trx, texts)
      await record(trx, 'secret.rotate', 'secret')
      return count
    })

  /** As in SLUICE_SECRET, which an operator may have copied into the file. */
  const secretsInFile = () =>
    (readSecretFile(dataDir) ?? '')
      .split(',')
      .map(part => part.trim())
      .filter(part => part !== '')

  /** A node that does not have the new secret could read no provider key any more, and would encrypt new ones with the old secret. */
  async function refuseOtherNodes(): Promise<void> {
    if (engine === 'sqlite') return
    const nodes = join(dataDir, 'nodes')
    const others = await secretsOfOthers(db, existsSync(nodes) ? readdirSync(nodes) : [])
    const [newest = ''] = keyring.secretIds()
    const lacking = others.filter(({ secretIds }) => isSecretInFile || !secretIds.includes(newest))
    if (lacking.length === 0) return
    const ids = lacking.map(({ nodeId }) => nodeId).join(', ')
    throw new CommandError(
      isSecretInFile
        ? `other nodes use this database and would not know a new secret in SLUICE_DATA/secret: ${ids}. Stop them, or set SLUICE_SECRET on all machines (docs/operating/fleet.md: The master secret). Retire nodes that will not return`
        : `these nodes do not have the new secret: ${ids}. Start them with SLUICE_SECRET=new,old, then run this command again. Retire nodes that will not return`,
    )
  }

  /** Every process of the gateway has these secrets when it returns. */
  async function applySecrets(secrets: readonly string[]): Promise<void> {
    keyring.replace(secrets)
    await reloadSecret?.()
  }

  return async function rotateSecret(): Promise<Report> {
    await refuseOtherNodes()
    if (isSecretInFile) {
      const existing = secretsInFile()
      // Two secrets: an earlier rotation was interrupted. Finish it before starting another.
      const secrets = existing.length === 1 ? [newSecret(), ...existing] : existing
      if (secrets !== existing) writeSecretFile(dataDir, secrets)
      await applySecrets(secrets)
    } else if (keyring.size() < 2) {
      throw new CommandError(
        'SLUICE_SECRET contains only one secret: start the gateway with SLUICE_SECRET=new,old, then run this command again',
      )
    }
    const count = (await resealMost()) + (await resealRest())
    if (isSecretInFile) {
      const [newest] = secretsInFile()
      if (newest) {
        writeSecretFile(dataDir, [newest])
        await applySecrets([newest])
      }
    }
    const next = isSecretInFile
      ? 'the old secret has been removed from SLUICE_DATA/secret'
      : 'the old secret is no longer needed: remove it from SLUICE_SECRET before the next start'
    return { ok: true, lines: [`${count} stored secrets re-encrypted under the new master secret`, next] }
  }
}
