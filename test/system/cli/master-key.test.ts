import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { sql } from 'kysely'
import { createKeyring } from '../../../src/identity/keyring.ts'
import { sealedUnderOlder } from '../../../src/store/engine/sealed.ts'
import type { Db } from '../../../src/store/engine/store.ts'
import { runHere } from '../../support/command.ts'
import { ENGINES } from '../../support/gateway.ts'
import {
  answerPlace,
  answerRow,
  describeRotation,
  describeWrongSecret,
  envOf,
  NEW,
  OLD,
  opening,
  operationsOn,
  type StoreAndKeys,
  seal,
  serving,
} from '../../support/master-secret.ts'
import { until } from '../../support/process.ts'
import { emptyGround } from '../../support/start.ts'

/** The sessions of this database that wait for a lock. */
async function lockWaits(db: Db): Promise<number> {
  const { rows } = await sql<{ waits: number }>`
    select count(*)::int as waits from pg_stat_activity
    where datname = current_database() and wait_event_type = 'Lock'`.execute(db)
  return rows[0]?.waits ?? 0
}

for (const engine of ENGINES) {
  describeWrongSecret(engine)
  for (const isInFile of [false, true]) describeRotation({ engine, isInFile })

  describe(`headers of channels on ${engine} from before they were encrypted`, () => {
    it('are encrypted by the next start, and still sent and returned', async () => {
      const ground = await emptyGround(engine)
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
    it('cannot be decrypted, and affect nothing else', async () => {
      await serving(await emptyGround(engine), undefined, async gateway => {
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

  describe(`a rotation on ${engine}`, () => {
    it('needs two secrets if they are configured, and explains how', async () => {
      const ground = await emptyGround(engine)
      await serving(ground, OLD, gateway =>
        assert.rejects(gateway.operations.rotateSecret(), /SLUICE_SECRET=new,old/),
      )
      const { code, stderr } = await runHere(['admin', 'rotate-secret'], { env: envOf(ground, OLD) })
      assert.equal(code, 1)
      assert.match(stderr, /^sluice: SLUICE_SECRET contains only one secret[^\n]*\n$/)
    })

    it('loses nothing that is created while it runs, with any number of runs', async () => {
      await serving(await emptyGround(engine), undefined, async gateway => {
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
      const ground = await emptyGround(engine)
      await opening(ground, undefined, async opened => {
        const { db } = opened.store
        let hasAsked = false
        // SQLite has one writer, so the first transaction of the rotation waits. PostgreSQL reports the lock.
        const watched = new Proxy(db, {
          get(target, name) {
            hasAsked ||= name === 'transaction'
            const value = Reflect.get(target, name, target)
            return typeof value === 'function' ? value.bind(target) : value
          },
        })
        const isWaiting = async () => (engine === 'sqlite' ? hasAsked : (await lockWaits(db)) > 0)
        const store = { ...opened.store, db: watched }
        const { rotateSecret } = operationsOn({ ...opened, store }, ground, true)
        const hasWritten = Promise.withResolvers<void>()
        const mayEnd = Promise.withResolvers<void>()
        const changing = db.transaction().execute(async trx => {
          const answer_sealed = opened.keyring.seal('{}', answerPlace('slow'))
          await trx.insertInto('idempotency').values(answerRow('slow', answer_sealed)).execute()
          hasWritten.resolve()
          await mayEnd.promise
        })
        await hasWritten.promise
        let isOver = false
        const rotating = rotateSecret().finally(() => {
          isOver = true
        })
        await until('the rotation to wait, or to end', async () =>
          isOver || (await isWaiting()) ? true : undefined,
        )
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
      await opening(await emptyGround(engine), OLD, async ({ store: { db } }) => {
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
