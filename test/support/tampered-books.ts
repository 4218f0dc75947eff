import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import type { EntryRow } from '../../src/store/engine/schema.ts'
import type { Db } from '../../src/store/engine/store.ts'
import { fitBalances, fitHead, nodeChain, relink } from './forged-chain.ts'
import type { EngineName } from './gateway.ts'
import { createStoppedBooks, type StoppedBooks, type Tampering } from './stopped-books.ts'

const FORGED: Omit<EntryRow, 'chain' | 'seq'> = {
  time: 1_800_000_000,
  kind: 'grant',
  user_id: 2,
  token_id: null,
  channel_id: null,
  amount: 1_000_000_000,
  actor: 'user:1',
  reason: 'top-up',
  request_id: null,
  hash: '00',
}

const lastSeq = async (db: Db, chain: string) =>
  (await db.selectFrom('chains').select('seq').where('name', '=', chain).executeTakeFirstOrThrow()).seq

async function cutEntries(db: Db, chain: string, count: number): Promise<void> {
  await db
    .deleteFrom('entries')
    .where('chain', '=', chain)
    .where('seq', '>', (await lastSeq(db, chain)) - count)
    .execute()
  await fitHead(db, chain)
  await fitBalances(db)
}

/** Ways to tamper with the ledger, and what `verify` must report for each. */
const ATTACKS: Readonly<Record<string, { tamper: Tampering; says: RegExp }>> = {
  'a grant in a chain of its own, with the balance raised': {
    async tamper({ db }) {
      await db
        .insertInto('entries')
        .values({ ...FORGED, chain: 'forged', seq: 1 })
        .execute()
      await fitBalances(db)
    },
    says: /entries: 1 belong to chain "forged"/,
  },
  'a grant in front of the first record of a chain': {
    async tamper({ db }) {
      await db
        .insertInto('entries')
        .values({ ...FORGED, chain: 'store', seq: -3 })
        .execute()
      await fitBalances(db)
    },
    says: /^store: BROKEN.*record -3/,
  },
  'the end of the store’s chain removed, head and balances fitted': {
    tamper: ({ db }) => cutEntries(db, 'store', 2),
    says: /^store: BROKEN.*head was changed/,
  },
  'the end of a node’s chain removed, head and balances fitted': {
    tamper: async ({ db }) => cutEntries(db, await nodeChain(db), 3),
    says: /^node:\S+: BROKEN.*head was changed/,
  },
  'all records of a node’s chain removed, head and balances fitted': {
    tamper: async ({ db }) => cutEntries(db, await nodeChain(db), 1_000),
    says: /^node:\S+: BROKEN.*head was changed/,
  },
  'a node removed with its whole chain, balances fitted': {
    async tamper({ db }) {
      const chain = await nodeChain(db)
      await db.deleteFrom('entries').where('chain', '=', chain).execute()
      await db.deleteFrom('chains').where('name', '=', chain).execute()
      await db.deleteFrom('nodes').execute()
      await fitBalances(db)
    },
    says: /^node:\S+: the whole chain is missing/,
  },
  'an amount changed, every link computed anew, head and balances fitted': {
    async tamper({ db }) {
      await db
        .updateTable('entries')
        .set({ amount: 7_000_000_000 })
        .where('chain', '=', 'store')
        .where('seq', '=', 2)
        .execute()
      await relink(db, 'store')
      await fitBalances(db)
    },
    says: /^store: BROKEN/,
  },
  'the newest audit record removed, head fitted': {
    async tamper({ db }) {
      await db
        .deleteFrom('audit')
        .where('seq', '=', await lastSeq(db, 'audit'))
        .execute()
      await fitHead(db, 'audit')
    },
    says: /^audit: BROKEN.*head was changed/,
  },
  'the position of a node’s journal moved back': {
    tamper: ({ db }) =>
      db
        .updateTable('nodes')
        .set(row => ({ applied_lsn: row('applied_lsn', '-', 1) }))
        .execute(),
    says: /^node:\S+: BROKEN.*position was moved/,
  },
  'the oldest open request of a node’s journal moved on': {
    tamper: ({ db }) => db.updateTable('nodes').set({ oldest_open_lsn: 1_000_000 }).execute(),
    says: /^node:\S+: BROKEN.*position was moved/,
  },
  'a user made unlimited': {
    tamper: ({ db }) =>
      db
        .updateTable('accounts')
        .set({ unlimited: 1 })
        .where('kind', '=', 'user')
        .where('owner_id', '=', 2)
        .execute(),
    says: /^rows: user:2 differs from its last audit record/,
  },
  'a token made unlimited': {
    tamper: ({ db }) =>
      db
        .updateTable('accounts')
        .set({ unlimited: 1 })
        .where('kind', '=', 'token')
        .where('owner_id', '=', 1)
        .execute(),
    says: /^rows: token:1 differs from its last audit record/,
  },
  'an amount held that no lease is for': {
    tamper: ({ db }) =>
      db
        .updateTable('accounts')
        .set({ held: 5_000 })
        .where('kind', '=', 'user')
        .where('owner_id', '=', 2)
        .execute(),
    says: /^held: user:2 has 5000 held, its leases add up to 0/,
  },
  'a lease of a node that there never was, with as much held': {
    async tamper({ db }) {
      await db
        .insertInto('leases')
        .values({ node_id: 'ghost', kind: 'user', owner_id: 2, amount: 5_000, number: 1, granted: 5_000 })
        .execute()
      await db
        .updateTable('accounts')
        .set({ held: 5_000 })
        .where('kind', '=', 'user')
        .where('owner_id', '=', 2)
        .execute()
    },
    says: /^held: a lease of ghost on user:2/,
  },
  'a token’s rate limits lifted': {
    tamper: ({ db }) => db.updateTable('tokens').set({ limits: '{}' }).where('id', '=', 1).execute(),
    says: /^rows: token:1 differs from its last audit record/,
  },
  'a token’s quota raised': {
    tamper: ({ db }) =>
      db
        .updateTable('accounts')
        .set(row => ({ credited: row('credited', '+', 1) }))
        .where('kind', '=', 'token')
        .where('owner_id', '=', 1)
        .execute(),
    says: /^token:1: the account has/,
  },
  'a token given to another user': {
    tamper: ({ db }) => db.updateTable('tokens').set({ user_id: 2 }).where('id', '=', 1).execute(),
    says: /^rows: token:1 differs from its last audit record/,
  },
  'a user’s role raised': {
    tamper: ({ db }) => db.updateTable('users').set({ role: 100 }).where('id', '=', 2).execute(),
    says: /^rows: user:2 differs from its last audit record/,
  },
  'a price lowered': {
    tamper: ({ db }) => db.updateTable('prices').set({ price: '{"input":1}' }).where('id', '=', 1).execute(),
    says: /^rows: prices of case-1 differs from its last audit record/,
  },
  'a price slipped in that no administrator set': {
    tamper: ({ db }) =>
      db
        .insertInto('prices')
        .values({
          model: 'gpt-5',
          search: 'gpt-5',
          version: 1,
          price: '{"input":1}',
          effective_time: 1,
          created_time: 1,
          author_id: 1,
          ended_time: null,
        })
        .execute(),
    says: /^rows: prices of gpt-5 was added without an audit record/,
  },
  'a setting changed': {
    tamper: ({ db }) => db.updateTable('settings').set({ value: '50' }).execute(),
    says: /^rows: settings differs from its last audit record/,
  },
  'a channel sent to another host': {
    tamper: ({ db }) =>
      db.updateTable('channels').set({ base_url: 'https://elsewhere.example' }).where('id', '=', 1).execute(),
    says: /^rows: channel:1 differs from its last audit record/,
  },
  'an account removed': {
    tamper: ({ db }) =>
      db.deleteFrom('accounts').where('kind', '=', 'user').where('owner_id', '=', 2).execute(),
    says: /^user:2: there are entries but no account/,
  },
}

/** The suite of a ledger that is changed in its database. */
export function describeTamperedBooks(engine: EngineName): void {
  describe(`an attacker who can write to the ${engine} store and does not know the master secret`, () => {
    let books: StoppedBooks
    before(async () => {
      books = await createStoppedBooks(engine)
    })
    after(() => books.close())

    it('that changes nothing leaves nothing for verify to report', async () => {
      const { ok, lines } = await books.verifyAfter(async () => {})
      assert.ok(ok, lines.join('\n'))
    })

    for (const [attack, { tamper, says }] of Object.entries(ATTACKS))
      it(`is detected by verify: ${attack}`, async () => {
        const { ok, lines } = await books.verifyAfter(tamper)
        assert.equal(ok, false, lines.join('\n'))
        assert.ok(
          lines.some(line => says.test(line)),
          lines.join('\n'),
        )
      })

    it('cannot have the chains closed under a new key by removing the key', async () => {
      await assert.rejects(
        books.verifyAfter(({ db }) => db.deleteFrom('meta').where('key', '=', 'chain_key').execute(), {
          between: 'reopened',
        }),
        /lost its chain key/,
      )
    })
  })
}
