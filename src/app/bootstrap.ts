import { randomBytes } from 'node:crypto'
import { SYSTEM } from '../domain/actor.ts'
import { createChainKey } from '../domain/chain.ts'
import { ROLE } from '../domain/role.ts'
import { mask } from '../domain/text.ts'
import { NEVER } from '../domain/token.ts'
import { createBodySeal } from '../identity/body-seal.ts'
import { sealHeaders } from '../identity/channel-headers.ts'
import { createDigest, newPassword } from '../identity/credentials.ts'
import { type Keyring, SealError } from '../identity/keyring.ts'
import { OPERATOR, type Passwords } from '../identity/passwords.ts'
import { createAccount } from '../manage/people/users.ts'
import { setChainKey } from '../store/books/chain-key.ts'
import { closeUnkeyedChains } from '../store/books/chain-upgrade.ts'
import { AUDIT_CHAIN, listChains, STORE_CHAIN, startChain } from '../store/books/chains.ts'
import { claimMeta, readMeta } from '../store/engine/meta.ts'
import { listPlainHeaders, replaceHeaders } from '../store/engine/sealed.ts'
import { type Db, transact } from '../store/engine/store.ts'
import { insertAccessToken } from '../store/records/access-tokens.ts'
import { appendAudit } from '../store/records/audit.ts'
import { type Config, SettingError } from './config.ts'

const DIGEST_KEY_PLACE = { table: 'meta', row: 'digest_key', field: 'value' } as const

const WRONG_SECRET =
  'is not the secret that this database is encrypted with; nothing was written. Set the right secret, or append it to the new one: new,old'

/** Decrypts the digest key. This proves the master secret before anything is written under it. */
export async function openDigest(db: Db, keyring: Keyring, source: string) {
  const sealed = await readMeta(db, 'digest_key')
  if (sealed === undefined) return undefined
  try {
    return createDigest(Buffer.from(keyring.open(sealed, DIGEST_KEY_PLACE), 'base64'))
  } catch (error) {
    if (error instanceof SealError) throw new SettingError(source, WRONG_SECRET)
    throw error
  }
}

const CHAIN_KEY_PLACE = { table: 'meta', row: 'chain_key', field: 'value' } as const
const LOST_CHAIN_KEY =
  'the database has lost its chain key (table meta, row chain_key), although its hash chains were written with one: restore a backup'

/**
 * Decrypts the key of the hash chains. A store from before chains had a key gets one here, and its chains are closed with it
 * in the same transaction.
 */
export async function openChainKey(db: Db, keyring: Keyring, now: () => number): Promise<void> {
  const open = (sealed: string) =>
    createChainKey(Buffer.from(keyring.open(sealed, CHAIN_KEY_PLACE), 'base64'))
  const sealed = await readMeta(db, 'chain_key')
  if (sealed !== undefined) return setChainKey(db, open(sealed))
  const key = createChainKey(randomBytes(32))
  const isFirst = await transact(db, async trx => {
    const value = keyring.seal(key.bytes.toString('base64'), CHAIN_KEY_PLACE)
    if (!(await claimMeta(trx, 'chain_key', value))) return false
    // A lost key must not be replaced: the new key would authenticate records that may have been changed.
    if ((await listChains(trx)).some(({ mac }) => mac !== '')) throw new Error(LOST_CHAIN_KEY)
    setChainKey(db, key)
    await closeUnkeyedChains(trx, key, now())
    return true
  })
  // Another process created the key first.
  if (!isFirst) await openChainKey(db, keyring, now)
}

const BODY_KEY_PLACE = { table: 'meta', row: 'body_key', field: 'value' } as const

/** Decrypts the key of bodies, and creates it if there is none. */
export async function openBodySeal(db: Db, keyring: Keyring) {
  for (;;) {
    const sealed = await readMeta(db, 'body_key')
    if (sealed !== undefined)
      return createBodySeal(Buffer.from(keyring.open(sealed, BODY_KEY_PLACE), 'base64'))
    // If another process creates the key at the same time, both use the one that was first.
    await claimMeta(db, 'body_key', keyring.seal(randomBytes(32).toString('base64'), BODY_KEY_PLACE))
  }
}

const HEADERS_AT_ONCE = 200

/**
 * Encrypts channel headers that an older version stored as plain text. Other processes and administrators may change them
 * concurrently, so each text is replaced only if it is unchanged.
 */
export async function sealPlainHeaders(db: Db, keyring: Keyring): Promise<void> {
  for (;;) {
    const rows = await listPlainHeaders(db, HEADERS_AT_ONCE)
    if (rows.length === 0) return
    await transact(db, async trx => {
      for (const row of rows)
        await replaceHeaders(trx, row, sealHeaders(keyring, row.id, row.header_override))
    })
  }
}

type FirstStart = {
  readonly config: Config
  readonly db: Db
  readonly keyring: Keyring
  readonly passwords: Passwords
  readonly now: () => number
}

/**
 * Creates the digest key, the chains and the root user of a new store, in one transaction. If several processes start at
 * once, one of them does it. Returns the generated password of root, which is printed once.
 */
export async function firstStart({
  config,
  db,
  keyring,
  passwords,
  now,
}: FirstStart): Promise<string | undefined> {
  if ((await readMeta(db, 'digest_key')) !== undefined) return undefined
  const password = config.rootPassword ?? newPassword()
  const passwordHash = await passwords.hash(password, OPERATOR)
  const digestKey = randomBytes(32)
  const digest = createDigest(digestKey)
  const time = now()

  const isFirst = await transact(db, async trx => {
    if (!(await claimMeta(trx, 'digest_key', keyring.seal(digestKey.toString('base64'), DIGEST_KEY_PLACE))))
      return false
    await startChain(trx, STORE_CHAIN)
    await startChain(trx, AUDIT_CHAIN)
    const root = await createAccount(trx, {
      username: 'root',
      displayName: 'Root',
      passwordHash,
      role: ROLE.root,
      unlimited: true,
      quota: 0,
      author: SYSTEM,
      time,
    })
    if (config.rootAccessToken)
      await insertAccessToken(trx, {
        user_id: root.id,
        name: 'SLUICE_ROOT_ACCESS_TOKEN',
        digest: digest(config.rootAccessToken),
        hint: mask(config.rootAccessToken),
        created_time: time,
        expired_time: NEVER,
      })
    await appendAudit(trx, {
      time,
      actor_id: 0,
      actor_name: SYSTEM,
      via: 'command:start',
      address: '',
      request_id: '',
      action: 'user.create',
      target: `user:${root.id}`,
      before: null,
      after: JSON.stringify({ username: 'root', role: ROLE.root }),
    })
    return true
  })
  return isFirst && config.rootPassword === undefined ? password : undefined
}
