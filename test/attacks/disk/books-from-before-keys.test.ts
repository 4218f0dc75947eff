import assert from 'node:assert/strict'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { fitBalances, fitHead, relink, removeKeys } from '../../support/forged-chain.ts'
import { ENGINES } from '../../support/gateway.ts'
import { createStoppedBooks, type StoppedBooks, type Tampering } from '../../support/stopped-books.ts'

/** Removes every trace of a key from the directory, as in the previous version. */
const becomeOld: Tampering = async ({ db, dataDir }) => {
  await removeKeys(db)
  rmSync(join(dataDir, 'anchors.log'))
  rmSync(join(dataDir, 'nodes'), { recursive: true })
}

for (const engine of ENGINES)
  describe(`a ledger in ${engine} from before chains had a key`, () => {
    let books: StoppedBooks
    before(async () => {
      books = await createStoppedBooks(engine)
    })
    after(() => books.close())

    /** Upgrades a copy, tampers with it, and verifies it. */
    const verifyUpgraded = async (tamper: Tampering = async () => {}) =>
      books.verifyAfter(becomeOld, { between: 'reopened', thenTamper: tamper })

    it('is closed by the upgrade, and verify reports how much of it was checked without a key', async () => {
      const { ok, lines } = await verifyUpgraded()
      assert.ok(ok, lines.join('\n'))
      for (const chain of ['audit', 'store', 'node:\\S+']) {
        const pattern = new RegExp(
          `^${chain}: (\\d+) records, unbroken; the first (\\d+) are from before the upgrade and were checked without a key$`,
        )
        const chainMatch = lines.map(line => pattern.exec(line)).find(match => match !== null)
        assert.ok(chainMatch, `${chain}\n${lines.join('\n')}`)
        assert.ok(Number(chainMatch[1]) > Number(chainMatch[2]))
      }
    })

    const brokenBy: Readonly<Record<string, Tampering>> = {
      'an old entry changed and every link computed anew': async ({ db }) => {
        await db
          .updateTable('entries')
          .set({ amount: 9 })
          .where('chain', '=', 'store')
          .where('seq', '=', 1)
          .execute()
        await relink(db, 'store')
        await fitBalances(db)
      },
      'a chain cut back to its old part': async ({ db }) => {
        await db.deleteFrom('entries').where('kind', '=', 'keyed').where('chain', '=', 'store').execute()
        await fitHead(db, 'store')
      },
      'an old entry removed with all after it': async ({ db }) => {
        await db.deleteFrom('entries').where('chain', '=', 'store').where('seq', '>', 2).execute()
        await fitHead(db, 'store')
        await fitBalances(db)
      },
      'a whole chain without a key added': async ({ db }) => {
        const [entry] = await db.selectFrom('entries').selectAll().where('kind', '=', 'grant').execute()
        assert.ok(entry)
        await db
          .insertInto('entries')
          .values({ ...entry, chain: 'node:old', seq: 1 })
          .execute()
        await db.insertInto('chains').values({ name: 'node:old', seq: 1, hash: '', mac: '' }).execute()
        await relink(db, 'node:old')
        await fitBalances(db)
      },
    }
    for (const [attack, tamper] of Object.entries(brokenBy))
      it(`does not verify after the upgrade if it was tampered with: ${attack}`, async () => {
        const { ok, lines } = await verifyUpgraded(tamper)
        assert.equal(ok, false, lines.join('\n'))
        assert.ok(
          lines.some(line => /^(store|node:old): BROKEN/.test(line)),
          lines.join('\n'),
        )
      })

    it('cannot be imitated if anchors record the key', async () => {
      const { ok, lines } = await books.verifyAfter(({ db }) => removeKeys(db), { between: 'reopened' })
      assert.equal(ok, false)
      assert.ok(
        lines.some(line =>
          /^anchors: line 1 of anchors\.log was changed, or is not from this gateway/.test(line),
        ),
        lines.join('\n'),
      )
    })
  })
