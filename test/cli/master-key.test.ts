import assert from 'node:assert/strict'
import { readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { readConfig, SettingError } from '../../src/app/config.ts'
import { openStoreAndKeys } from '../../src/app/store-and-keys.ts'
import { createOperations } from '../../src/cli/operations.ts'
import { createKeyring, SealError } from '../../src/identity/keyring.ts'
import { sealedUnderOlder } from '../../src/store/engine/sealed.ts'
import { openStore } from '../../src/store/engine/store.ts'
import { runHere } from '../support/command.ts'
import { ENGINES, type EngineName, type Gateway } from '../support/gateway.ts'
import { createDatabase } from '../support/postgres.ts'
import {
  type Env,
  newDirectory,
  run,
  type ServerOptions,
  settingsOf,
  startGatewayOn,
  startServer,
} from '../support/process.ts'
import { allRows, tableDigests } from '../support/tables.ts'

const OLD = 'the-old-secret-0123456789-abcdefghijklmnop'
const NEW = 'the-new-secret-9876543210-qrstuvwxyzabcdef'
const NEXT = 'the-next-secret-0918273645-ghijklmnopqrstu'
const WRONG = 'a-wrong-secret-that-never-sealed-anything'
const PLACE = { table: 'channel_keys', row: 7, field: 'key' } as const

describe('the keyring', () => {
  const keyring = createKeyring([OLD])
  const sealed = keyring.seal('a provider key', PLACE)
  const refuses = (text: string, place: Parameters<typeof keyring.open>[1] = PLACE, ring = keyring) =>
    assert.throws(() => ring.open(text, place), SealError, text)

  it('decrypts what it encrypted, for any text', () => {
    for (const text of ['', 'a provider key', '{"private_key":"…\n"}', '🔑'.repeat(1_000), '\u0000'])
      assert.equal(keyring.open(keyring.seal(text, PLACE), PLACE), text)
  })

  it('encrypts the same text differently each time, and reveals nothing of it', () => {
    const again = keyring.seal('a provider key', PLACE)
    assert.notEqual(again, sealed)
    assert.ok(![sealed, again].some(text => text.includes('provider')))
  })

  it('does not decrypt a text that was moved to another row, field or table', () => {
    refuses(sealed, { ...PLACE, row: 8 })
    refuses(sealed, { ...PLACE, row: '7 ' })
    refuses(sealed, { ...PLACE, field: 'sealed' })
    refuses(sealed, { ...PLACE, table: 'tokens' })
  })

  it('does not decrypt a text with any character changed, removed or added', () => {
    for (let at = 0; at < sealed.length; at += 1) {
      for (const other of ['A', 'B', '_', '.', '='])
        if (sealed[at] !== other) refuses(sealed.slice(0, at) + other + sealed.slice(at + 1))
      refuses(sealed.slice(0, at))
      refuses(sealed.slice(at + 1))
      refuses(`${sealed.slice(0, at)}${sealed.slice(at + 1)}`)
      refuses(`${sealed.slice(0, at)}x${sealed.slice(at)}`)
    }
    for (const more of ['.', '.x', '=', ' ', '\n', 'A']) refuses(sealed + more)
  })

  it('does not decrypt a text with a single bit flipped', () => {
    const [version, kid, nonce = '', body = ''] = sealed.split('.')
    const turned = (text: string, bit: number) => {
      const bytes = Buffer.from(text, 'base64url')
      bytes[bit >> 3] = (bytes[bit >> 3] as number) ^ (1 << (bit & 7))
      return bytes.toString('base64url')
    }
    for (let bit = 0; bit < Buffer.from(nonce, 'base64url').length * 8; bit += 1)
      refuses([version, kid, turned(nonce, bit), body].join('.'))
    for (let bit = 0; bit < Buffer.from(body, 'base64url').length * 8; bit += 1)
      refuses([version, kid, nonce, turned(body, bit)].join('.'))
  })

  it('does not decrypt a text under another secret, nor one that only claims to be encrypted under it', () => {
    const other = createKeyring([NEW])
    refuses(sealed, PLACE, other)
    const [version, , nonce, body] = sealed.split('.')
    const claimed = other.newestPrefix().split('.')[1]
    refuses([version, claimed, nonce, body].join('.'), PLACE, other)
    refuses([version, claimed, nonce, body].join('.'), PLACE, createKeyring([NEW, OLD]))
  })

  it('decrypts with every secret it has, and encrypts with the newest', () => {
    const both = createKeyring([NEW, OLD])
    assert.equal(both.open(sealed, PLACE), 'a provider key')
    const moved = both.seal('a provider key', PLACE)
    assert.ok(moved.startsWith(both.newestPrefix()))
    assert.equal(createKeyring([NEW]).open(moved, PLACE), 'a provider key')
    refuses(moved)
    both.replace([NEW])
    refuses(sealed, PLACE, both)
  })

  it('is not created without a secret', () => {
    assert.throws(() => createKeyring([]), SealError)
  })
})

const databases: { drop(): Promise<void> }[] = []
async function dropDatabases(): Promise<void> {
  for (const database of databases.splice(0)) await database.drop()
}

/** A data directory, and a database if the engine needs one, that no server has used yet. */
async function newGround(engine: EngineName): Promise<ServerOptions> {
  const dataDir = join(newDirectory(), 'data')
  if (engine === 'sqlite') return { dataDir }
  const database = await createDatabase()
  databases.push(database)
  return { dataDir, databaseUrl: database.url }
}

const secretSetting = (secret?: string): Env => (secret === undefined ? {} : { SLUICE_SECRET: secret })
const envOf = (ground: ServerOptions, secret?: string): Env =>
  settingsOf({ ...ground, env: secretSetting(secret) })

type StoreAndKeys = Awaited<ReturnType<typeof openStoreAndKeys>>

/** A gateway in this process, on an existing store that is kept. */
async function serving<T>(
  ground: ServerOptions,
  secret: string | undefined,
  work: (gateway: Gateway) => Promise<T>,
) {
  const gateway = await startGatewayOn({ ...ground, env: secretSetting(secret) })
  try {
    return await work(gateway)
  } finally {
    await gateway.close()
  }
}

/** Store and keys without a server, as a command opens them. */
async function opening<T>(
  ground: ServerOptions,
  secret: string | undefined,
  work: (opened: StoreAndKeys) => Promise<T>,
) {
  const opened = await openStoreAndKeys(readConfig(envOf(ground, secret)))
  try {
    return await work(opened)
  } finally {
    await opened.close()
  }
}

const operationsOn = (
  opened: StoreAndKeys,
  { dataDir, databaseUrl = '' }: ServerOptions,
  isSecretInFile: boolean,
) =>
  createOperations({
    ...opened,
    anchorFile: undefined,
    db: opened.store.db,
    engine: opened.store.engine,
    storeOptions: { engine: 'postgres', url: databaseUrl },
    version: 'test',
    now: () => 0,
    announce: async () => {},
    explain: () => assert.fail('no request is explained'),
    importFrom: () => assert.fail('nothing is imported'),
    configuration: {} as never,
    dataDir,
    isSecretInFile,
  })

/** Everything that is stored: the bytes of each file and the rows of each table. */
async function everythingOf({ dataDir, databaseUrl }: ServerOptions) {
  const files = readdirSync(dataDir, { recursive: true, withFileTypes: true })
    .filter(entry => entry.isFile())
    .map(entry => join(entry.parentPath, entry.name))
    .map(path => [path, readFileSync(path).toString('base64')])
  if (databaseUrl === undefined) return { files, tables: {} }
  const store = openStore({ engine: 'postgres', url: databaseUrl, maxConnections: 2 })
  const tables = await tableDigests(store.db)
  await store.close()
  return { files, tables }
}

/** Objects with encrypted texts, and how to check that each can still be decrypted. */
async function seal(gateway: Gateway) {
  const made = async (path: string, body: unknown, headers: Env = {}) => {
    const reply = await gateway.api('POST', path, body, { headers })
    assert.equal(reply.status, 200, reply.text)
    return reply.body.data
  }
  const token = await made('/api/token/', { name: 'sealed' })
  const channel = {
    name: 'sealed',
    type: 1,
    key: 'a provider key\nanother key',
    base_url: 'http://127.0.0.1:9',
    header_override: { 'X-Secret': 'a secret in a header' },
    models: ['sealed-model'],
    setting: { proxy: 'http://ann:a-proxy-password@127.0.0.1:9' },
  }
  const { id: channelId, header_override } = await made('/api/channel/', { mode: 'multi_to_single', channel })
  const headers = { 'idempotency-key': 'repeatable' }
  const repeatable = await made('/api/token/', { name: 'repeatable' }, headers)

  return async function assertOpen(later: Pick<Gateway, 'api'>) {
    const ask = async (method: string, path: string, body?: unknown, asking = {}) => {
      const reply = await later.api(method, path, body, asking)
      assert.equal(reply.status, 200, reply.text)
      return reply.body.data
    }
    assert.equal((await ask('POST', `/api/token/${token.id}/key`)).key, token.key)
    assert.equal((await ask('POST', `/api/channel/${channelId}/key`)).key, channel.key)
    // The masked key, which proves that the gateway decrypted it.
    assert.match(header_override['X-Secret'], /^a.+…/)
    assert.deepEqual((await ask('GET', `/api/channel/${channelId}`)).header_override, header_override)
    // A setting that cannot be decrypted is a fault of the channel's network.
    const { steps, passed_over } = await ask('POST', '/api/route/explain', { model: 'sealed-model' })
    const { network } = [...steps, ...passed_over].find(step => step.channel_id === channelId)
    assert.deepEqual([network.proxy, network.fault], ['http://127.0.0.1:9', null])
    assert.deepEqual(await ask('POST', '/api/token/', { name: 'repeatable' }, { headers }), repeatable)
    // Tokens are found by digests, whose key is encrypted as well.
    assert.equal((await ask('GET', '/api/usage/token/', undefined, { token: token.key })).name, 'sealed')
  }
}

/** Every encrypted text, by the id of its secret. */
async function sealedBy({ store }: StoreAndKeys): Promise<Record<string, number>> {
  const counts: Record<string, number> = {}
  for (const rows of (await allRows(store.db)).values())
    for (const value of rows.flatMap(row => Object.values(row))) {
      const kid = /^v1\.([0-9a-f]{8})\.[\w-]+\.[\w-]+$/.exec(String(value))?.[1]
      if (kid !== undefined) counts[kid] = (counts[kid] ?? 0) + 1
    }
  return counts
}
const kidOf = (secret: string) => createKeyring([secret]).newestPrefix().split('.')[1] as string

const answerPlace = (key: string) => ({ table: 'idempotency', row: `1 POST /made ${key}`, field: 'answer' })
const answerRow = (key: string, answer_sealed: string) => ({
  user_id: 1,
  path: 'POST /made',
  key,
  body_digest: '',
  answer_sealed,
  // In the future, so that no newer response removes it.
  created_time: 100_000_000_000,
})

/** More encrypted texts than one transaction of a rotation re-encrypts. */
const MANY = 450
async function sealMany({ store, keyring }: StoreAndKeys): Promise<void> {
  const keys = Array.from({ length: MANY }, (_, index) => `key-${index}`)
  const rows = keys.map(key => answerRow(key, keyring.seal('{}', answerPlace(key))))
  await store.db.insertInto('idempotency').values(rows).execute()
}

const refusesToStart = (ground: ServerOptions, secret?: string) =>
  assert.rejects(
    opening(ground, secret, async () => {}),
    (error: Error) => error instanceof SettingError,
  )

for (const engine of ENGINES) {
  describe(`a wrong master secret on ${engine} (docs/reference/process.md: Master secret)`, () => {
    after(dropDatabases)
    let ground: ServerOptions
    before(async () => {
      ground = await newGround(engine)
      await serving(ground, OLD, seal)
    })

    for (const args of [['start'], ['verify'], ['admin', 'rotate-secret'], ['admin', 'access-token']]) {
      it(`ends ${args.join(' ')} with exit 78 naming SLUICE_SECRET, before anything is written`, async () => {
        const before = await everythingOf(ground)
        const env = envOf(ground, WRONG)
        const { code, stdout, stderr } = await (args[0] === 'start' ? run : runHere)(args, { env })
        assert.deepEqual([code, stdout], [78, ''])
        assert.match(stderr, /^sluice: SLUICE_SECRET is not the secret [^\n]*\n$/)
        assert.deepEqual(await everythingOf(ground), before)
      })
    }

    it('is also refused if it is missing: none is created in its place', async () => {
      const before = await everythingOf(ground)
      const { code, stderr } = await runHere(['verify'], { env: envOf(ground) })
      assert.equal(code, 78)
      assert.match(stderr, /^sluice: SLUICE_SECRET is not set and [^\n]*\n$/)
      assert.deepEqual(await everythingOf(ground), before)
    })

    it('in the data directory is named by its file', async () => {
      writeFileSync(join(ground.dataDir, 'secret'), `${WRONG}\n`, { mode: 0o600 })
      const before = await everythingOf(ground)
      await assert.rejects(
        opening(ground, undefined, async () => {}),
        /^SettingError: SLUICE_DATA\/secret is not the secret/,
      )
      assert.deepEqual(await everythingOf(ground), before)
      rmSync(join(ground.dataDir, 'secret'))
    })

    it('is accepted if the right one follows it', async () => {
      const digestUnder = (secret: string) =>
        opening(ground, secret, async ({ digest }) => digest('sk-anything'))
      assert.equal(await digestUnder(`${WRONG},${OLD}`), await digestUnder(OLD))
    })
  })

  describe(`headers of channels on ${engine} from before they were encrypted`, () => {
    after(dropDatabases)
    it('are encrypted by the next start, and still sent and returned', async () => {
      const ground = await newGround(engine)
      const assertOpen = await serving(ground, OLD, seal)
      const rows = ({ store }: StoreAndKeys) =>
        store.db.selectFrom('channels').select(['id', 'header_override']).execute()
      await opening(ground, OLD, async opened => {
        for (const { id } of await rows(opened))
          await opened.store.db
            .updateTable('channels')
            .set({ header_override: JSON.stringify({ 'X-Secret': 'a secret in a header' }) })
            .where('id', '=', id)
            .execute()
      })
      await serving(ground, OLD, assertOpen)
      for (const { header_override } of await opening(ground, OLD, rows))
        assert.match(header_override, /^v1\.[0-9a-f]{8}\./)
    })
  })

  describe(`encrypted texts on ${engine} that were moved or changed in the store`, () => {
    after(dropDatabases)
    it('cannot be decrypted, and affect nothing else', async () => {
      await serving(await newGround(engine), undefined, async gateway => {
        const ids = []
        for (const name of ['first', 'second', 'third']) {
          const channel = { name, type: 1, key: `key of ${name}`, base_url: 'http://127.0.0.1:9' }
          ids.push((await gateway.api('POST', '/api/channel/', { mode: 'single', channel })).body.data.id)
        }
        const rows = await gateway.db
          .selectFrom('channel_keys')
          .select(['id', 'sealed'])
          .orderBy('id')
          .execute()
        const write = (row: number, sealed = '') =>
          gateway.db
            .updateTable('channel_keys')
            .set({ sealed })
            .where('id', '=', rows[row]?.id ?? 0)
            .execute()
        await write(0, rows[1]?.sealed)
        await write(1, rows[1]?.sealed.slice(0, -1))
        for (const id of ids.slice(0, 2)) {
          const reply = await gateway.api('POST', `/api/channel/${id}/key`)
          assert.equal(reply.status, 409)
          assert.ok(!reply.text.includes('key of'))
          assert.equal((await gateway.api('GET', `/api/channel/${id}`)).status, 200)
        }
        assert.equal((await gateway.api('POST', `/api/channel/${ids[2]}/key`)).body.data.key, 'key of third')
      })
    })
  })

  for (const mode of ['given', 'kept'] as const) {
    /** The secrets as a start gets them: in the environment, or not at all if they are in a file. */
    const told = (...secrets: string[]) => (mode === 'given' ? secrets.join(',') : undefined)

    describe(`a rotation of secrets that are ${mode}, on ${engine}`, () => {
      after(dropDatabases)
      let ground: ServerOptions
      let assertOpen: Awaited<ReturnType<typeof seal>>
      let old: string
      const file = () => join(ground.dataDir, 'secret')
      const kept = () => readFileSync(file(), 'utf8').trim().split(',')
      const newest = (given: string) => (mode === 'given' ? given : (kept()[0] as string))
      before(async () => {
        ground = await newGround(engine)
        assertOpen = await serving(ground, told(OLD), seal)
        await opening(ground, told(OLD), sealMany)
        old = newest(OLD)
      })

      it('that is interrupted leaves everything decryptable with both secrets', async () => {
        await opening(ground, told(NEW, OLD), async opened => {
          let seals = 0
          const failing = {
            ...opened.keyring,
            seal: (...given: Parameters<typeof opened.keyring.seal>) => {
              seals += 1
              if (seals > 300) throw new Error('the power went out')
              return opened.keyring.seal(...given)
            },
          }
          const { rotateSecret } = operationsOn({ ...opened, keyring: failing }, ground, mode === 'kept')
          await assert.rejects(rotateSecret(), /the power went out/)
          const counts = await sealedBy(opened)
          const moved = counts[kidOf(newest(NEW))] ?? 0
          const left = counts[kidOf(old)] ?? 0
          assert.ok(moved > 0 && left > 0 && moved + left > MANY, JSON.stringify(counts))
        })
        await serving(ground, told(NEW, OLD), assertOpen)
      })

      it('is completed by another run, on a server that keeps serving', async () => {
        const before = mode === 'kept' ? kept() : []
        assert.deepEqual(before.slice(1), mode === 'kept' ? [old] : [])
        await serving(ground, told(NEW, OLD), async gateway => {
          const [report] = await Promise.all([gateway.operations.rotateSecret(), assertOpen(gateway)])
          assert.equal(report.ok, true)
          await assertOpen(gateway)
        })
        // The secret of the first attempt is used, not a third one.
        if (mode === 'kept') assert.deepEqual(kept(), before.slice(0, 1))
      })

      it('leaves nothing that the old secret can decrypt, and everything to the new one', async () => {
        if (mode === 'kept') {
          const rotated = kept().join()
          assert.equal(statSync(file()).mode & 0o777, 0o600)
          assert.deepEqual(
            readdirSync(ground.dataDir).filter(name => name.startsWith('secret')),
            ['secret'],
          )
          writeFileSync(file(), `${old}\n`)
          await refusesToStart(ground)
          writeFileSync(file(), `${rotated}\n`)
        } else {
          await refusesToStart(ground, OLD)
        }
        await serving(ground, told(NEW), assertOpen)
        await opening(ground, told(NEW), async ({ store, keyring }) => {
          const { id, setting_sealed } = await store.db
            .selectFrom('channels')
            .select(['id', 'setting_sealed'])
            .where('name', '=', 'sealed')
            .executeTakeFirstOrThrow()
          const place = { table: 'channels', row: id, field: 'setting' }
          assert.match(keyring.open(setting_sealed, place), /a-proxy-password/)
        })
        assert.deepEqual(Object.keys(await opening(ground, told(NEW), sealedBy)), [kidOf(newest(NEW))])
      })

      it('is done by the command, and the server starts with the new secret only', async () => {
        const before = mode === 'kept' ? kept() : []
        // With a running server in one case, without one in the other: both on both engines.
        const isServed = (engine === 'sqlite') === (mode === 'kept')
        const env = envOf(ground, told(NEXT, NEW))
        const server = isServed ? await startServer({ ...ground, env }) : undefined
        const { code, stdout, stderr } = await (isServed ? run : runHere)(['admin', 'rotate-secret'], { env })
        assert.equal(code, 0, stderr)
        assert.match(stdout, /^\d+ stored secrets re-encrypted under the new master secret\nthe old secret /)
        if (server) {
          await assertOpen(server)
          assert.equal((await server.stop()).code, 0)
        }
        if (mode === 'kept') {
          assert.equal(kept().length, 1)
          assert.notDeepEqual(kept(), before)
        } else {
          await refusesToStart(ground, NEW)
        }
        await serving(ground, told(NEXT), async gateway => {
          await assertOpen(gateway)
          assert.equal((await gateway.operations.verify({})).ok, true)
        })
      })
    })
  }

  describe(`a rotation on ${engine}`, () => {
    after(dropDatabases)
    it('needs two secrets if they are configured, and explains how', async () => {
      const ground = await newGround(engine)
      await serving(ground, OLD, gateway =>
        assert.rejects(gateway.operations.rotateSecret(), /SLUICE_SECRET=new,old/),
      )
      const { code, stderr } = await runHere(['admin', 'rotate-secret'], { env: envOf(ground, OLD) })
      assert.equal(code, 1)
      assert.match(stderr, /^sluice: SLUICE_SECRET contains only one secret[^\n]*\n$/)
    })

    it('loses nothing that is created while it runs, with any number of runs', async () => {
      await serving(await newGround(engine), undefined, async gateway => {
        let isOver = false
        const keys = new Map<number, string>()
        const makeTokens = async () => {
          while (!isOver) {
            const { data } = (await gateway.api('POST', '/api/token/', { name: 'made meanwhile' })).body
            keys.set(data.id, data.key)
          }
        }
        const making = Promise.all([makeTokens(), makeTokens(), makeTokens(), makeTokens()])
        for (let turn = 0; turn < 5; turn += 1)
          assert.equal((await gateway.operations.rotateSecret()).ok, true)
        isOver = true
        await making
        assert.ok(keys.size > 0)
        for (const [id, key] of keys)
          assert.equal((await gateway.api('POST', `/api/token/${id}/key`)).body.data?.key, key)
      })
    })

    it('waits for a transaction that encrypted with the old secret and has not ended yet', async () => {
      const ground = await newGround(engine)
      await opening(ground, undefined, async opened => {
        const { db } = opened.store
        const { rotateSecret } = operationsOn(opened, ground, true)
        const begun = Promise.withResolvers<void>()
        const mayEnd = Promise.withResolvers<void>()
        const changing = db.transaction().execute(async trx => {
          const answer_sealed = opened.keyring.seal('{}', answerPlace('slow'))
          await trx.insertInto('idempotency').values(answerRow('slow', answer_sealed)).execute()
          begun.resolve()
          await mayEnd.promise
        })
        await begun.promise
        const rotating = rotateSecret()
        // Long enough for a rotation that does not wait to complete.
        await Promise.race([rotating, setTimeout(700)])
        mayEnd.resolve()
        await Promise.all([changing, rotating])
        const { answer_sealed } = await db
          .selectFrom('idempotency')
          .select('answer_sealed')
          .executeTakeFirstOrThrow()
        assert.equal(opened.keyring.open(answer_sealed, answerPlace('slow')), '{}')
      })
    })

    it('does not overwrite a text that was encrypted again meanwhile', async () => {
      await opening(await newGround(engine), OLD, async ({ store: { db } }) => {
        const [first] = await sealedUnderOlder(db, createKeyring([NEW]).newestPrefix(), 1)
        assert.equal(first?.place.row, 'digest_key')
        const row = db.selectFrom('meta').select('value').where('key', '=', 'digest_key')
        const value = async () => (await row.executeTakeFirstOrThrow()).value
        const set = (text: string) =>
          db.updateTable('meta').set({ value: text }).where('key', '=', 'digest_key').execute()
        const sealed = await value()
        await set('sealed anew')
        await db.transaction().execute(trx => first.replace(trx, 'an old text'))
        assert.equal(await value(), 'sealed anew')
        await set(sealed)
        await db.transaction().execute(trx => first.replace(trx, 'the next text'))
        assert.equal(await value(), 'the next text')
      })
    })
  })
}
