import assert from 'node:assert/strict'
import { readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { before, describe, it } from 'node:test'
import { readConfig, SettingError } from '../../src/app/config.ts'
import { openStoreAndKeys } from '../../src/app/store-and-keys.ts'
import { createOperations } from '../../src/cli/operations.ts'
import { createKeyring } from '../../src/identity/keyring.ts'
import { openStore } from '../../src/store/engine/store.ts'
import { runHere } from './command.ts'
import type { EngineName, Gateway } from './gateway.ts'
import { type Env, run, type ServerOptions, settingsOf, startGatewayOn, startServer } from './process.ts'
import { emptyGround, failedStart } from './start.ts'
import { allRows, tableDigests } from './tables.ts'

export const OLD = 'the-old-secret-0123456789-abcdefghijklmnop'
export const NEW = 'the-new-secret-9876543210-qrstuvwxyzabcdef'
const NEXT = 'the-next-secret-0918273645-ghijklmnopqrstu'
const WRONG = 'a-wrong-secret-that-never-sealed-anything'

const secretSetting = (secret?: string): Env => (secret === undefined ? {} : { SLUICE_SECRET: secret })
export const envOf = (ground: ServerOptions, secret?: string): Env =>
  settingsOf({ ...ground, env: secretSetting(secret) })

export type StoreAndKeys = Awaited<ReturnType<typeof openStoreAndKeys>>

/** A gateway in this process, on an existing store that is kept. */
export async function serving<T>(
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
export async function opening<T>(
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

export const operationsOn = (
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
export async function seal(gateway: Gateway) {
  const create = async (path: string, body: unknown, headers: Env = {}) => {
    const reply = await gateway.api('POST', path, body, { headers })
    assert.equal(reply.status, 200, reply.text)
    return reply.body.data
  }
  const token = await create('/api/token/', { name: 'sealed' })
  const channel = {
    name: 'sealed',
    type: 1,
    key: 'a provider key\nanother key',
    base_url: 'http://127.0.0.1:9',
    header_override: { 'X-Secret': 'a secret in a header' },
    models: ['sealed-model'],
    setting: { proxy: 'http://ann:a-proxy-password@127.0.0.1:9' },
  }
  const { id: channelId, header_override } = await create('/api/channel/', {
    mode: 'multi_to_single',
    channel,
  })
  const headers = { 'idempotency-key': 'repeatable' }
  const repeatable = await create('/api/token/', { name: 'repeatable' }, headers)

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

export const answerPlace = (key: string) => ({
  table: 'idempotency',
  row: `1 POST /made ${key}`,
  field: 'answer',
})
export const answerRow = (key: string, answer_sealed: string) => ({
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

/** The suite of a store whose master secret is another one. */
export function describeWrongSecret(engine: EngineName): void {
  describe(`a wrong master secret on ${engine} (docs/reference/process.md: Master secret)`, () => {
    let ground: ServerOptions
    before(async () => {
      ground = await emptyGround(engine)
      await serving(ground, OLD, seal)
    })

    for (const args of [['start'], ['verify'], ['admin', 'rotate-secret'], ['admin', 'access-token']]) {
      it(`ends ${args.join(' ')} with exit 78 naming SLUICE_SECRET, before anything is written`, async () => {
        const before = await everythingOf(ground)
        const { code, stdout, stderr } =
          args[0] === 'start'
            ? await failedStart({ ...ground, env: secretSetting(WRONG) })
            : await runHere(args, { env: envOf(ground, WRONG) })
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
}

type Rotation = {
  readonly engine: EngineName
  /** Whether the secrets are in the data directory, and not in SLUICE_SECRET. */
  readonly isInFile: boolean
}

/** The suite of a rotation from its begin, over an interruption, to a start without the old secret. */
export function describeRotation({ engine, isInFile }: Rotation): void {
  /** The secrets as a start gets them: in the environment, or not at all if they are in a file. */
  const settingOf = (...secrets: string[]) => (isInFile ? undefined : secrets.join(','))

  describe(`a rotation of secrets in ${isInFile ? 'the data directory' : 'the environment'}, on ${engine}`, () => {
    let ground: ServerOptions
    let assertOpen: Awaited<ReturnType<typeof seal>>
    let old: string
    const file = () => join(ground.dataDir, 'secret')
    const secretsInFile = () => readFileSync(file(), 'utf8').trim().split(',')
    const newest = (secret: string) => (isInFile ? (secretsInFile()[0] as string) : secret)
    before(async () => {
      ground = await emptyGround(engine)
      assertOpen = await serving(ground, settingOf(OLD), seal)
      await opening(ground, settingOf(OLD), sealMany)
      old = newest(OLD)
    })

    it('that is interrupted leaves everything decryptable with both secrets', async () => {
      await opening(ground, settingOf(NEW, OLD), async opened => {
        let seals = 0
        const failing = {
          ...opened.keyring,
          seal: (...input: Parameters<typeof opened.keyring.seal>) => {
            seals += 1
            if (seals > 300) throw new Error('the power went out')
            return opened.keyring.seal(...input)
          },
        }
        const { rotateSecret } = operationsOn({ ...opened, keyring: failing }, ground, isInFile)
        await assert.rejects(rotateSecret(), /the power went out/)
        const counts = await sealedBy(opened)
        const moved = counts[kidOf(newest(NEW))] ?? 0
        const remainingCount = counts[kidOf(old)] ?? 0
        assert.ok(moved > 0 && remainingCount > 0 && moved + remainingCount > MANY, JSON.stringify(counts))
      })
      await serving(ground, settingOf(NEW, OLD), assertOpen)
    })

    it('is completed by another run, on a server that keeps serving', async () => {
      const before = isInFile ? secretsInFile() : []
      assert.deepEqual(before.slice(1), isInFile ? [old] : [])
      await serving(ground, settingOf(NEW, OLD), async gateway => {
        const [report] = await Promise.all([gateway.operations.rotateSecret(), assertOpen(gateway)])
        assert.equal(report.ok, true)
        await assertOpen(gateway)
      })
      // The secret of the first attempt is used, not a third one.
      if (isInFile) assert.deepEqual(secretsInFile(), before.slice(0, 1))
    })

    it('leaves nothing that the old secret can decrypt, and everything to the new one', async () => {
      if (isInFile) {
        const rotated = secretsInFile().join()
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
      await serving(ground, settingOf(NEW), assertOpen)
      await opening(ground, settingOf(NEW), async ({ store, keyring }) => {
        const { id, setting_sealed } = await store.db
          .selectFrom('channels')
          .select(['id', 'setting_sealed'])
          .where('name', '=', 'sealed')
          .executeTakeFirstOrThrow()
        const place = { table: 'channels', row: id, field: 'setting' }
        assert.match(keyring.open(setting_sealed, place), /a-proxy-password/)
      })
      assert.deepEqual(Object.keys(await opening(ground, settingOf(NEW), sealedBy)), [kidOf(newest(NEW))])
    })

    it('is done by the command, and the server starts with the new secret only', async () => {
      const before = isInFile ? secretsInFile() : []
      // With a running server in one case, without one in the other: both on both engines.
      const isServed = (engine === 'sqlite') === isInFile
      const env = envOf(ground, settingOf(NEXT, NEW))
      const server = isServed ? await startServer({ ...ground, env }) : undefined
      const { code, stdout, stderr } = await (isServed ? run : runHere)(['admin', 'rotate-secret'], { env })
      assert.equal(code, 0, stderr)
      assert.match(stdout, /^\d+ stored secrets re-encrypted under the new master secret\nthe old secret /)
      if (server) {
        await assertOpen(server)
        assert.equal((await server.stop()).code, 0)
      }
      if (isInFile) {
        assert.equal(secretsInFile().length, 1)
        assert.notDeepEqual(secretsInFile(), before)
      } else {
        await refusesToStart(ground, NEW)
      }
      await serving(ground, settingOf(NEXT), async gateway => {
        await assertOpen(gateway)
        assert.equal((await gateway.operations.verify({})).ok, true)
      })
    })
  })
}
