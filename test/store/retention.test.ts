import assert from 'node:assert/strict'
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { sweepLeftovers } from '../../src/host/leftovers.ts'
import { insertLog, LOG_TYPE } from '../../src/store/usage/logs.ts'
import { createRetention } from '../../src/store/usage/retention.ts'
import { ENGINES, suiteGateway } from '../support/gateway.ts'

const DAY_S = 86_400
const SESSION_LASTS_S = 7 * DAY_S
/** More than two batches. */
const MANY = 240

for (const engine of ENGINES) {
  describe(`rows that expire, on ${engine}`, () => {
    const gateway = suiteGateway({ engine })
    let pauses = 0
    /** Work of another writer during a pause of the job. */
    let meanwhile: () => Promise<unknown> = async () => {}
    const nowS = Math.floor(Date.now() / 1000)
    const daysAgo = (days: number) => nowS - days * DAY_S

    async function sweep() {
      const retention = createRetention({
        db: gateway.db,
        engine,
        sessionLastsS: SESSION_LASTS_S,
        now: () => nowS,
        isLeader: () => true,
        async pause() {
          pauses += 1
          await meanwhile()
        },
        onFailure: error => assert.fail(error),
      })
      try {
        return await retention.sweep()
      } finally {
        await retention.close()
      }
    }

    const log = (type: number, days: number, count = 1) =>
      gateway.db.transaction().execute(async trx => {
        for (let index = 0; index < count; index++)
          await insertLog(trx, { created_time: daysAgo(days), type, user_id: 1 })
      })
    const ages = async () => {
      const rows = await gateway.db
        .selectFrom('logs')
        .select(['type', 'created_time'])
        .orderBy('created_time')
        .orderBy('type')
        .execute()
      return rows.map(({ type, created_time }) => `${type}@${Math.round((nowS - created_time) / DAY_S)}`)
    }
    const counts = async () => {
      const of = async (table: 'entries' | 'rollups' | 'audit') =>
        (await gateway.db.selectFrom(table).selectAll().execute()).length
      return [await of('entries'), await of('rollups'), await of('audit')]
    }

    it('are usage and error rows older than the setting, in batches, and no rows of the ledger', async () => {
      await gateway.createUser({ quota: 5 })
      await gateway.db.deleteFrom('logs').execute()
      await gateway.db
        .insertInto('rollups')
        .values({
          bucket: daysAgo(400),
          user_id: 1,
          token_id: 1,
          channel_id: 1,
          model: 'm',
          requests: 1,
          failures: 0,
          prompt_tokens: 1,
          completion_tokens: 1,
          cost: 1,
        })
        .execute()
      const books = await counts()
      await log(LOG_TYPE.topUp, 500)
      await log(LOG_TYPE.consume, 120, MANY)
      await log(LOG_TYPE.error, 100)
      await log(LOG_TYPE.refund, 95)
      await log(LOG_TYPE.consume, 91)
      await log(LOG_TYPE.consume, 89)
      await log(LOG_TYPE.error, 0)
      meanwhile = () => log(LOG_TYPE.consume, 1)
      assert.deepEqual(await sweep(), {
        usage: MANY + 2,
        partitions: 0,
        sessions: 0,
        answers: 0,
        tags: 0,
        deliveries: 0,
        bodies: 0,
      })
      assert.equal(pauses, 2)
      assert.deepEqual(await ages(), ['1@500', '6@95', '2@89', '2@1', '2@1', '5@0'])
      assert.deepEqual(await counts(), books)
      assert.deepEqual(await sweep(), {
        usage: 0,
        partitions: 0,
        sessions: 0,
        answers: 0,
        tags: 0,
        deliveries: 0,
        bodies: 0,
      })
    })

    it('follow the setting: fewer days take effect immediately, 0 keeps all rows', async () => {
      await log(LOG_TYPE.consume, 1_000)
      await gateway.api('PUT', '/api/setting/', { usage_retention_days: 0 })
      assert.equal((await sweep()).usage, 0)
      await gateway.api('PUT', '/api/setting/', { usage_retention_days: 30 })
      assert.equal((await sweep()).usage, 2)
      assert.deepEqual(await ages(), ['1@500', '6@95', '2@1', '2@1', '5@0'])
    })

    it('are sessions 30 days after they ended or expired, and saved responses after a day', async () => {
      const session = (digest: string, created: number, ended: number | null) => ({
        user_id: 1,
        digest,
        address: '',
        user_agent: '',
        created_time: daysAgo(created),
        last_seen_time: daysAgo(created),
        ended_time: ended === null ? null : daysAgo(ended),
      })
      await gateway.db
        .insertInto('sessions')
        .values([
          session('ended long ago', 33, 31),
          session('ended', 31, 29),
          session('ran out long ago', 38, null),
          session('ran out', 36, null),
          session('lives', 1, null),
        ])
        .execute()
      const answer = (key: string, created_time: number) => ({
        user_id: 1,
        path: '/',
        key,
        body_digest: '',
        answer_sealed: '',
        created_time,
      })
      await gateway.db
        .insertInto('idempotency')
        .values([
          ...Array.from({ length: 600 }, (_, index) => answer(`old ${index}`, daysAgo(1) - index)),
          answer('new', daysAgo(1) + 60),
        ])
        .execute()
      assert.deepEqual(await sweep(), {
        usage: 0,
        partitions: 0,
        sessions: 2,
        answers: 600,
        tags: 0,
        deliveries: 0,
        bodies: 0,
      })
      const sessions = await gateway.db.selectFrom('sessions').select('digest').orderBy('id').execute()
      assert.deepEqual(
        sessions.map(({ digest }) => digest),
        ['ended', 'ran out', 'lives'],
      )
      assert.deepEqual(await gateway.db.selectFrom('idempotency').select('key').execute(), [{ key: 'new' }])
    })
  })
}

describe('incomplete files of a killed process', () => {
  it('are deleted when the directory is locked, and no other files are', () => {
    const dir = mkdtempSync(join(tmpdir(), 'sluice-leftovers-'))
    const files = ['sluice.db', 'secret', 'kept.part', 'sluice.db.part', 'sluice.db.part-wal', 'secret.new']
    for (const name of files) writeFileSync(join(dir, name), 'x')
    mkdirSync(join(dir, 'nodes.part/a'), { recursive: true })
    mkdirSync(join(dir, 'nodes/b'), { recursive: true })
    sweepLeftovers(dir)
    const remainingFiles = [...files, 'nodes.part', 'nodes/b'].filter(name => existsSync(join(dir, name)))
    assert.deepEqual(remainingFiles, ['sluice.db', 'secret', 'kept.part', 'nodes/b'])
    rmSync(dir, { recursive: true })
  })
})
