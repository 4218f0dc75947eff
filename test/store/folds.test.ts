import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { createChainKey } from '../../src/domain/chain.ts'
import { createBooks } from '../../src/store/books/books.ts'
import { setChainKey } from '../../src/store/books/chain-key.ts'
import { AUDIT_CHAIN, startChain } from '../../src/store/books/chains.ts'
import { openStore, type Store } from '../../src/store/engine/store.ts'
import { createFolding } from '../../src/store/usage/folds.ts'
import {
  groupRollups,
  type RollupFilter,
  stepRollups,
  stepRollupsOf,
  sumRollups,
} from '../../src/store/usage/rollups.ts'
import { ENGINES } from '../support/gateway.ts'
import { createDatabase, stopOwnPostgres } from '../support/postgres.ts'

const DAY_S = 86_400
const QUARTER_S = 900
const DAYS = 4
const START = 20_000 * DAY_S
const END = START + DAYS * DAY_S
const MODELS = ['alpha', 'beta', 'gamma']

/** Reproducible random numbers. */
function createChance(seed: number) {
  let state = seed
  return (below: number) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
}

type Filter = Partial<RollupFilter>
/** The results of all kinds of queries, by span and filter. */
type Figures = ReadonlyMap<string, readonly unknown[]>

/** The figures before anything is folded, from the engine that runs first: the other one must have the same. */
let plain: Figures | undefined

after(stopOwnPostgres)

for (const engine of ENGINES) {
  describe(`folded rollups on ${engine}`, () => {
    let store: Store
    let drop: () => Promise<void>
    let folding: ReturnType<typeof createFolding>
    let now = END + 7_000

    before(async () => {
      if (engine === 'postgres') {
        const database = await createDatabase()
        store = openStore({ engine, url: database.url })
        drop = database.drop
      } else {
        const folder = mkdtempSync(join(tmpdir(), 'sluice-folds-'))
        store = openStore({ engine, path: join(folder, 'sluice.db'), fullSync: false })
        drop = async () => rmSync(folder, { recursive: true, force: true })
      }
      await store.migrate()
      setChainKey(store.db, createChainKey(Buffer.alloc(32, 7)))
      await store.db.transaction().execute(trx => startChain(trx, AUDIT_CHAIN))
      const chance = createChance(7)
      const rows = new Map<string, Parameters<typeof rowOf>>()
      for (let n = 0; n < 300; n++) {
        const key = [
          START + chance((DAYS * DAY_S) / QUARTER_S) * QUARTER_S,
          1 + chance(4),
          chance(3),
        ] as const
        rows.set(key.join(), [...key, chance(1000)])
      }
      await store.db
        .insertInto('rollups')
        .values([...rows.values()].map(each => rowOf(...each)))
        .execute()
      folding = createFolding({
        db: store.db,
        engine,
        now: () => now,
        isLeader: () => true,
        pause: async () => {},
        onFailure: error => assert.fail(error),
      })
      plain ??= await figures()
    })
    after(async () => {
      await folding.close()
      await store.close()
      await drop()
    })

    function rowOf(bucket: number, user_id: number, model: number, cost: number) {
      return {
        bucket,
        user_id,
        token_id: user_id * 10 + (model % 2),
        channel_id: 1 + (model % 2),
        model: MODELS[model] ?? '',
        requests: 1 + (cost % 3),
        failures: cost % 2,
        prompt_tokens: cost,
        completion_tokens: cost * 2,
        cost,
      }
    }

    const STRETCHES: readonly (readonly [number, number])[] = [
      [START, END],
      [START + 5 * QUARTER_S, END - 7 * QUARTER_S],
      [START + DAY_S + QUARTER_S, START + DAY_S + 5 * QUARTER_S],
      [START - 3 * DAY_S, END + 3 * DAY_S],
    ]
    const FILTERS: readonly Filter[] = [
      {},
      { userId: 2 },
      { tokenIds: [21] },
      { tokenIds: [20, 31] },
      { tokenIds: [21], channelId: 2 },
      { userId: 2, tokenIds: [20], model: 'gamma' },
      { userId: 2, channelId: 1 },
      { channelId: 1 },
      { model: 'beta' },
      { channelId: 1, model: 'alpha' },
      { userId: 3, model: 'gamma' },
    ]

    async function figures(stretches = STRETCHES, filters = FILTERS): Promise<Figures> {
      const { db } = store
      const all = new Map<string, unknown[]>()
      for (const [from, to] of stretches)
        for (const filter of filters) {
          const query = { from, to, ...filter }
          const results: unknown[] = []
          all.set(JSON.stringify(query), results)
          results.push(await sumRollups(db, query))
          for (const group of ['model', 'token', 'channel', 'user'] as const) {
            const groups = await groupRollups(db, query, { by: group, limit: 100 })
            results.push(groups)
            const keys = groups.slice(0, 2).map(({ key }) => key)
            const steps = await stepRollupsOf(db, query, { by: group, stepS: 3_600, keys })
            results.push(steps.toSorted((a, b) => a.bucket - b.bucket || (a.key < b.key ? -1 : 1)))
          }
          for (const step of [QUARTER_S, 3_600]) results.push(await stepRollups(db, query, step))
        }
      return all
    }

    /** The same figures before anything was folded. */
    const plainOf = (all: Figures): Figures => new Map(all.keys().map(key => [key, plain?.get(key) ?? []]))

    async function assertPlain(...limits: Parameters<typeof figures>): Promise<void> {
      const all = await figures(...limits)
      assert.deepEqual(all, plainOf(all))
    }

    const folds = () =>
      store.db.selectFrom('rollup_folds').selectAll().orderBy('unit').orderBy('start').execute()

    it('have the same sums as the quarter hours, for every span', async () => {
      await folding.fold()
      assert.equal((await folds()).filter(({ run }) => run === '').length, DAYS * 24 + 1 + DAYS)
      await assertPlain()
      // Makes sure that the folded sums were read at all.
      await store.db
        .updateTable('rollup_sums')
        .set({ requests: 1_000_000 })
        .where('kind', 'like', `%@${DAY_S}`)
        .execute()
      const changed = await figures(STRETCHES.slice(0, 1))
      assert.notDeepEqual(changed, plainOf(changed))
      await store.db.deleteFrom('rollup_folds').execute()
      await folding.fold()
      await assertPlain(STRETCHES.slice(0, 2))
    })

    it('have the same sums for a token, with and without its owner in the filter', async () => {
      await store.db
        .insertInto('token_names')
        .values([20, 21, 31].map(token_id => ({ token_id, name: 'x', user_id: Math.floor(token_id / 10) })))
        .execute()
      const ofTokens = FILTERS.filter(({ tokenIds }) => tokenIds !== undefined)
      await assertPlain(STRETCHES, ofTokens)
      await store.db.deleteFrom('rollup_folds').execute()
      await assertPlain(STRETCHES, ofTokens)
      await folding.fold()
    })

    it('do not span the start of a point of a chart', async () => {
      const days = Array.from({ length: DAYS - 1 }, (_, day) => START + day * DAY_S)
      async function points() {
        const costs: number[][] = []
        // Days that start with a day of UTC, with an hour, and half or a quarter of an hour beside one.
        for (const late of [0, 3_600, 5.5 * 3_600, 5.75 * 3_600])
          for (const filter of FILTERS) {
            const cuts = days.map(day => day + late)
            const query = { ...filter, from: START + late, to: END - 3 * QUARTER_S, cuts }
            const steps = [
              ...(await stepRollups(store.db, query, QUARTER_S)),
              ...(await stepRollupsOf(store.db, query, { by: 'model', stepS: QUARTER_S })),
            ]
            const place = (bucket: number) => cuts.findLastIndex(cut => cut <= bucket)
            const byPlace = Map.groupBy(steps, ({ bucket }) => place(bucket))
            costs.push(cuts.map((_, at) => (byPlace.get(at) ?? []).reduce((sum, { cost }) => sum + cost, 0)))
          }
        return costs
      }
      const summed = await points()
      await store.db.deleteFrom('rollup_folds').execute()
      assert.deepEqual(await points(), summed)
      await folding.fold()
    })

    it('are made for past units only', async () => {
      const newest = async () => (await folds()).filter(({ unit }) => unit === 3_600).at(-1)?.start
      assert.equal(await newest(), END)
      now = END + 7_200 + 59
      await folding.fold()
      assert.equal(await newest(), END)
      now = END + 7_200 + 60
      await folding.fold()
      assert.equal(await newest(), END + 3_600)
    })

    it('include a late request immediately, and after they are made again', async () => {
      const filter = { from: START, to: END }
      const { requests, cost } = await sumRollups(store.db, filter)
      const books = createBooks(store.db, engine)
      await books.openNode('late', 0, now)
      const record = {
        kind: 'settle',
        rid: 'req_00000000000000000000000LATE',
        timeMs: (START + 5_000) * 1000,
        userId: 1,
        tokenId: 0,
        channelId: 1,
        cost: 77,
        overrun: 0,
        userLeased: 0,
        tokenLeased: 0,
        doubts: [],
        log: {
          tokenName: '',
          model: 'alpha',
          promptTokens: 1,
          completionTokens: 1,
          useTimeMs: 1,
          isStream: false,
          address: '',
          isError: false,
          content: '',
          upstreamRequestId: '',
          other: {},
        },
      }
      const before = (await folds()).length
      const settled = Buffer.from(JSON.stringify([record]))
      await books.apply('late', { settled, afterLsn: 0, lastLsn: 1, oldestOpenLsn: 2 })
      assert.equal((await folds()).length, before - 2)
      const grown = { requests: requests + 1, cost: cost + 77 }
      const readSums = async () => {
        const sums = await sumRollups(store.db, filter)
        return { requests: sums.requests, cost: sums.cost }
      }
      assert.deepEqual(await readSums(), grown)
      await folding.fold()
      assert.equal((await folds()).length, before)
      assert.deepEqual(await readSums(), grown)
    })
  })
}
