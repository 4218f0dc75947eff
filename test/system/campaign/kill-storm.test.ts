import assert from 'node:assert/strict'
import { randomInt } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, describe, it, type TestContext } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { sql } from 'kysely'
import { createKeyring } from '../../../src/identity/keyring.ts'
import type { Store } from '../../../src/store/engine/store.ts'
import { type EngineName, oneEngine } from '../../support/gateway.ts'
import {
  launch,
  lookInto,
  newGround,
  type Server,
  settingsOf,
  startServer,
  until,
  untilSessionsEnded,
  verifyThroughSocket,
} from '../../support/process.ts'
import { createDraw, createRandomWrites, type RandomWrites } from '../../support/random-writes.ts'

const isCampaign = process.env.SLUICE_CAMPAIGN !== undefined
const KILLS = isCampaign ? 50 : 2
const FIRST_STARTS = isCampaign ? 20 : 1
/** Set it to repeat a run; fixed unless a campaign draws a random one. */
const SEED = Number(process.env.SLUICE_SEED ?? (isCampaign ? randomInt(2 ** 31) : 20_250_101))
/** How many responses a round gets before the kill, and how long after the last of them it follows. */
const MOST_ANSWERS = isCampaign ? 400 : 60
const MOST_DELAY_MS = 40
/** About the duration of a start: kills happen at any point of it. */
const START_MS = 1_200

const count = async (rows: Promise<readonly unknown[]>) => (await rows).length

/** Inconsistencies that no crash may leave, counted in the store itself. */
async function countHalfMade({ db, engine }: Store): Promise<Record<string, number>> {
  const channels = await db.selectFrom('channels').select(['id', 'models']).execute()
  const models = Map.groupBy(
    await db.selectFrom('channel_models').selectAll().execute(),
    row => row.channel_id,
  )
  const keys = Map.groupBy(
    await db
      .selectFrom('channel_keys')
      .select(['channel_id', 'position', 'sealed'])
      .orderBy('position')
      .execute(),
    row => row.channel_id,
  )
  const withoutAccount = (table: 'users' | 'tokens', kind: 'user' | 'token') =>
    count(
      db
        .selectFrom(table)
        .leftJoin('accounts', join =>
          join.onRef('accounts.owner_id', '=', `${table}.id`).on('kind', '=', kind),
        )
        .where('accounts.owner_id', 'is', null)
        .select(`${table}.id`)
        .execute(),
    )
  const outOfStep = channels.filter(channel => {
    const listed = (JSON.parse(channel.models) as string[]).toSorted()
    const rows = (models.get(channel.id) ?? []).map(row => row.model).toSorted()
    return JSON.stringify(listed) !== JSON.stringify(rows)
  })
  const keyless = channels.filter(channel => {
    const own = keys.get(channel.id) ?? []
    return own.length === 0 || own.some((key, index) => key.position !== index || key.sealed === '')
  })
  const rowsOf = async (pragma: string) => (await sql<object>`pragma ${sql.raw(pragma)}`.execute(db)).rows
  return {
    'users without an account': await withoutAccount('users', 'user'),
    'tokens without an account': await withoutAccount('tokens', 'token'),
    'tokens without a key': await count(
      db.selectFrom('tokens').select('id').where('key_sealed', '=', '').execute(),
    ),
    'channels without whole keys': keyless.length,
    'channels whose models are out of step': outOfStep.length,
    ...(engine === 'sqlite'
      ? {
          'faults of the file': (await rowsOf('integrity_check')).filter(
            row => Object.values(row)[0] !== 'ok',
          ).length,
          'rows that point nowhere': (await rowsOf('foreign_key_check')).length,
        }
      : {}),
  }
}

/** Keys are compared completely, which requires the secret. */
async function countWrongSecrets({ db }: Store, dataDir: string, { things }: RandomWrites): Promise<number> {
  const keyring = createKeyring(readFileSync(join(dataDir, 'secret'), 'utf8').trim().split(','))
  const keys = await db.selectFrom('channel_keys').selectAll().orderBy('position').execute()
  const byChannel = Map.groupBy(keys, key => key.channel_id)
  const tokens = await db.selectFrom('tokens').select(['id', 'key_sealed']).execute()
  const opened = new Map(
    tokens.map(row => [row.id, keyring.open(row.key_sealed, { table: 'tokens', row: row.id, field: 'key' })]),
  )
  const wrongTokens = [...things.token].filter(
    ([id, { secrets }]) => secrets && opened.get(id) !== secrets[0],
  )
  const wrongChannels = [...things.channel].filter(([id, { secrets }]) => {
    const own = (byChannel.get(id) ?? []).map(key =>
      keyring.open(key.sealed, { table: 'channel_keys', row: key.id, field: 'key' }),
    )
    return JSON.stringify(own) !== JSON.stringify(secrets)
  })
  return wrongTokens.length + wrongChannels.length
}

/** The requests in the audit log: each acknowledged write must be among them. */
async function auditedRequests({ db }: Store): Promise<Set<string>> {
  const rows = await db.selectFrom('audit').select('request_id').where('request_id', '<>', '').execute()
  return new Set(rows.map(row => row.request_id))
}

const tell = (t: TestContext, engine: EngineName, figures: Readonly<Record<string, number>>) => {
  const text = Object.entries(figures).map(([name, figure]) => `${name} ${figure}`)
  const line = `${engine}, seed ${SEED}: ${text.join(', ')}`
  t.diagnostic(line)
  if (isCampaign) console.log(line)
}

for (const engine of oneEngine('postgres')) {
  describe(`kill -9 on ${engine} (docs/reference/money.md: Crash recovery)`, () => {
    let server: Server | undefined
    after(() => server?.kill())

    it('during concurrent writes loses nothing that was acknowledged and leaves no partial change', async t => {
      const draw = createDraw(SEED)
      const randomWrites = createRandomWrites(draw)
      const ground = await newGround(engine)
      const figures = { kills: 0, answered: 0, 'in doubt': 0, 'done of those': 0, lost: 0, 'half-made': 0 }
      let slowestStartMs = 0
      const landedBefore = new Set<string>()
      server = await startServer(ground)

      for (let kill = 1; kill <= KILLS; kill++) {
        const { api, kill: end } = server
        const load = randomWrites.start(api)
        const enough = randomWrites.count() + draw.whole(1, MOST_ANSWERS)
        await until('the random writes', () =>
          randomWrites.count() >= enough || randomWrites.faults.length > 0 ? true : undefined,
        )
        await setTimeout(draw.whole(0, MOST_DELAY_MS))
        await end()
        const killed = new Date()
        await load
        // Some are killed again while they start.
        if (draw.whole(1, 4) === 1) {
          const starting = launch(['start'], { env: settingsOf(ground) })
          await setTimeout(draw.whole(50, START_MS))
          starting.signal('SIGKILL')
          await starting.ended
          figures.kills += 1
        }
        const startedMs = performance.now()
        server = await startServer(ground)
        slowestStartMs = Math.max(slowestStartMs, Math.round(performance.now() - startedMs))
        await untilSessionsEnded(ground, killed)

        const inDoubt = randomWrites.inDoubt()
        const { lost, halfMade, landed } = await randomWrites.compare(server.api)
        const { half, wrongSecrets, audited } = await lookInto(ground, async store => ({
          half: await countHalfMade(store),
          wrongSecrets: await countWrongSecrets(store, ground.dataDir, randomWrites),
          audited: await auditedRequests(store),
        }))
        const unaudited = [...randomWrites.answered].filter(id => !audited.has(id))
        const unanswered = [...audited].filter(id => !randomWrites.answered.has(id) && !landedBefore.has(id))
        for (const id of unanswered) landedBefore.add(id)
        const books = await verifyThroughSocket(ground)

        figures.kills += 1
        figures.answered = randomWrites.count()
        figures['in doubt'] += inDoubt
        figures['done of those'] += landed
        figures.lost += lost.length + unaudited.length + wrongSecrets
        figures['half-made'] += halfMade.length + Object.values(half).reduce((sum, each) => sum + each, 0)

        const at = `after kill ${kill}, seed ${SEED}`
        assert.deepEqual(randomWrites.faults, [], at)
        assert.deepEqual(lost, [], at)
        assert.deepEqual(halfMade, [], at)
        assert.deepEqual(
          Object.entries(half).filter(([, rowCount]) => rowCount > 0),
          [],
          at,
        )
        assert.equal(wrongSecrets, 0, at)
        assert.deepEqual(unaudited, [], at)
        // A write that was executed without a response has its record too, and no other write has one.
        assert.equal(unanswered.length, landed, at)
        assert.ok(books.ok, `${at}: ${books.lines.join('\n')}`)
      }
      tell(t, engine, { ...figures, 'slowest start in ms': slowestStartMs })
      await server.stop()
      server = undefined
    })

    it('during its first start leaves a gateway that starts, with one root and a consistent ledger', async t => {
      const draw = createDraw(SEED + 1)
      let untouched = 0
      for (let round = 0; round < FIRST_STARTS; round++) {
        const ground = await newGround(engine)
        const env = settingsOf(ground)
        for (let kill = 0; kill < 2; kill++) {
          const starting = launch(['start'], { env })
          await setTimeout(draw.whole(200, START_MS))
          starting.signal('SIGKILL')
          const { stdout } = await starting.ended
          if (!stdout.includes('Sluice is ready.')) untouched += 1
        }
        server = await startServer(ground)
        const { body } = await server.api('GET', '/api/user/?page_size=500')
        assert.deepEqual(
          body.data.items.map(({ username, role }: { username: string; role: number }) => [username, role]),
          [['root', 100]],
        )
        assert.ok((await verifyThroughSocket(ground)).ok)
        assert.equal((await server.stop()).code, 0)
        server = undefined
      }
      tell(t, engine, { 'first starts killed': FIRST_STARTS * 2, 'before they were ready': untouched })
    })
  })
}
