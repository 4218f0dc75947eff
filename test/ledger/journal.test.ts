import assert from 'node:assert/strict'
import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import type { Books } from '../../src/ledger/books.ts'
import { createJournal } from '../../src/ledger/journal.ts'
import { diskFiles, type JournalFiles } from '../../src/ledger/journal-files.ts'
import { type Hold, type HoldRequest, openLedger } from '../../src/ledger/ledger.ts'
import type { OtherNodes } from '../../src/ledger/low-balance.ts'
import { createBooks } from '../../src/store/books/books.ts'
import { ENGINES, suiteGateway } from '../support/gateway.ts'
import { commitOf, editJournal } from '../support/journal-text.ts'
import { USAGE } from '../support/usage.ts'

const ALONE: OtherNodes = {
  isEmpty: async () => true,
  returnIdle: async () => ({ mustStillHold: async () => {} }),
  exclusively: (_userId, work) => work({ mustStillHold: () => {} }),
}

const UNIT = 2_000
/** Five settled requests fill a file: open, attempt, settle. */
const SEGMENT_RECORDS = 15
const REQUESTS = 12

for (const engine of ENGINES) {
  describe(`a journal with damaged or missing files, on ${engine}`, () => {
    const gateway = suiteGateway({ engine })
    let dir: string
    let requests = 0
    before(async () => {
      dir = mkdtempSync(join(tmpdir(), 'sluice-journal-'))
    })
    after(async () => {
      rmSync(dir, { recursive: true, force: true })
    })

    const nodeDir = () => mkdtempSync(join(dir, 'node-'))
    const filesOf = (node: string) =>
      readdirSync(node)
        .filter(name => name.endsWith('.log'))
        .sort()
        .map(name => join(node, name))

    async function open(
      node: string,
      {
        change = {},
        reports = [],
        files = diskFiles,
        nowMs = Date.now,
        applyEveryMs = 150,
      }: {
        change?: Partial<Books>
        reports?: string[]
        files?: JournalFiles
        nowMs?: () => number
        applyEveryMs?: number
      } = {},
    ) {
      return openLedger({
        nodeId: basename(node),
        journal: createJournal({
          dir: node,
          fullSync: false,
          nowMs,
          onReserveReleased: error => reports.push(error.message),
          onSyncFailure: () => {},
          segmentRecords: SEGMENT_RECORDS,
          files,
        }),
        books: { ...createBooks(gateway.db, engine), ...change },
        nowMs: Date.now,
        applyEveryMs,
        otherNodes: ALONE,
        outageMs: 0,
        onFailure: error => reports.push(error.message),
        onHealed: () => {},
      })
    }

    async function newPayer() {
      const { id, accessToken } = await gateway.createUser({ quota: 1_000 })
      const { body } = await gateway.api(
        'POST',
        '/api/token/',
        { name: 't', unlimited_quota: true },
        { token: accessToken },
      )
      return { userId: id, tokenId: body.data.id as number }
    }
    type Payer = Awaited<ReturnType<typeof newPayer>>

    const requestOf = (payer: Payer): HoldRequest => ({
      ...payer,
      rid: `req_${++requests}`,
      tokenName: 't',
      model: 'gpt-4o-mini',
      amount: 10 * UNIT,
      isStream: false,
      address: '',
    })
    const settle = (hold: Hold) => hold.settle({ channelId: 1, cost: UNIT, log: USAGE })

    async function serve(ledger: Awaited<ReturnType<typeof open>>, payer: Payer, count: number) {
      for (let done = 0; done < count; done++) {
        const hold = await ledger.hold(requestOf(payer))
        await hold.attempt(1, UNIT)
        await settle(hold)
      }
    }

    const accountOf = ({ userId }: Payer) =>
      gateway.db
        .selectFrom('accounts')
        .select(['posted', 'held', 'request_count as requests'])
        .where('kind', '=', 'user')
        .where('owner_id', '=', userId)
        .executeTakeFirstOrThrow()

    const mustVerify = async () => {
      const { ok, lines } = await gateway.operations.verify({})
      assert.ok(ok, lines.join('\n'))
    }

    /** A node that was killed with three files of settled requests, none of them in the store. */
    async function killedNode() {
      const node = nodeDir()
      const payer = await newPayer()
      const killed = await open(node, { change: { apply: () => new Promise(() => {}) } })
      await serve(killed, payer, REQUESTS)
      const files = filesOf(node)
      assert.equal(files.length, 3)
      return { node, payer, files: files as [string, string, string] }
    }

    /** The error message; asserts that nothing was applied. */
    async function refusalOf(node: string, payer: Payer): Promise<string> {
      let message = ''
      await assert.rejects(open(node), error => {
        assert.equal((error as Error).name, 'JournalDamageError')
        message = (error as Error).message
        return true
      })
      assert.equal((await accountOf(payer)).requests, 0)
      return message
    }

    it('is refused with a file missing in the middle, and applied once when the file is put back', async () => {
      const { node, payer, files } = await killedNode()
      const aside = join(dir, 'aside.log')
      renameSync(files[1], aside)
      const message = await refusalOf(node, payer)
      assert.match(message, /the records 16 to 30 are missing between .*0001\.log and journal-0+31\.log/)
      renameSync(aside, files[1])
      await (await open(node)).close()
      await (await open(node)).close()
      assert.deepEqual(await accountOf(payer), { posted: REQUESTS * UNIT, held: 0, requests: REQUESTS })
      await mustVerify()
    })

    it('is refused with its first file missing', async () => {
      const { node, payer, files } = await killedNode()
      rmSync(files[0])
      assert.match(await refusalOf(node, payer), /the records 1 to 15 are missing before .*0016\.log/)
    })

    it('is refused with its last file missing', async () => {
      const { node, payer, files } = await killedNode()
      rmSync(files[2])
      assert.match(await refusalOf(node, payer), /the file that followed .*0016\.log is missing/)
    })

    it('is refused with its last file emptied', async () => {
      const { node, payer, files } = await killedNode()
      writeFileSync(files[2], '')
      assert.match(await refusalOf(node, payer), /0031\.log is empty, but it had records/)
    })

    it('is refused when a record was changed', async () => {
      const { node, payer, files } = await killedNode()
      editJournal(files[1], text =>
        text.replace(commitOf(18), commit => commit.replace('"cost":2000', '"cost":1000')),
      )
      assert.match(await refusalOf(node, payer), /0016\.log: the checksum of record 18 does not match/)
    })

    it('is refused when records were deleted from a file', async () => {
      const { node, payer, files } = await killedNode()
      editJournal(files[1], text => text.replace(commitOf(19), ''))
      assert.match(await refusalOf(node, payer), /the records 19 to 20 are missing in .*0016\.log/)
    })

    it('is refused when an earlier file is truncated or no longer a journal', async () => {
      const { node, payer, files } = await killedNode()
      const whole = readFileSync(files[0])
      for (const broken of [
        whole.subarray(0, whole.length / 2),
        Buffer.alloc(whole.length, 0x5a),
        Buffer.alloc(0),
      ]) {
        writeFileSync(files[0], broken)
        assert.match(
          await refusalOf(node, payer),
          /the records \d+ to 15 are missing between .*0001\.log|0001\.log (cannot be read|is empty)/,
        )
      }
      writeFileSync(files[0], whole)
      await (await open(node)).close()
      assert.equal((await accountOf(payer)).requests, REQUESTS)
    })

    it('is refused with all files missing once the store has applied some of its records', async () => {
      const node = nodeDir()
      const payer = await newPayer()
      const ledger = await open(node)
      await serve(ledger, payer, 2)
      await ledger.close()
      for (const file of filesOf(node)) rmSync(file)
      await assert.rejects(open(node), /has no records, but the store has applied 6 of them/)
      assert.equal((await accountOf(payer)).requests, 2)
    })

    it('continues after the position of the store when its end was lost, and bills nothing twice', async () => {
      const node = nodeDir()
      const payer = await newPayer()
      const ledger = await open(node)
      const running = await ledger.hold(requestOf(payer))
      const answered = await ledger.hold(requestOf(payer))
      await answered.attempt(1, UNIT)
      answered.progress(UNIT)
      await settle(answered)
      await running.attempt(1, UNIT)
      running.progress(3 * UNIT)
      await serve(ledger, payer, 1)
      await ledger.barrier()
      const [file = ''] = filesOf(node)
      // As after a power failure: the journal loses records that the store has.
      editJournal(file, text => text.slice(0, text.indexOf('#commit 4 ')).replace(/(?:^\{.*\n)+$/m, ''))

      const reports: string[] = []
      const next = await open(node, { reports })
      assert.match(reports.join(), /the records 4 to 10 are missing at the end of/)
      assert.equal((await accountOf(payer)).requests, 2)
      await serve(next, payer, 3)
      await next.close()
      await (await open(node)).close()
      assert.deepEqual(await accountOf(payer), { posted: 5 * UNIT, held: 0, requests: 5 })
      await mustVerify()
    })

    /** The files of a simulated disk. */
    const filesOn = (disk: (write: () => void) => void): JournalFiles => ({
      ...diskFiles,
      openToWrite(path) {
        const file = diskFiles.openToWrite(path)
        return { ...file, write: (bytes, position) => disk(() => file.write(bytes, position)) }
      },
    })

    it('settles running requests when the disk is full, and refuses new ones until there is space again', async () => {
      const node = nodeDir()
      const payer = await newPayer()
      const reserve = join(node, 'reserve')
      let isFull = false
      let nowMs = Date.now()
      const files = filesOn(write => {
        if (isFull && existsSync(reserve)) throw new Error('no space left on device')
        write()
      })
      const reports: string[] = []
      const ledger = await open(node, { files, reports, nowMs: () => nowMs })
      const running = await ledger.hold(requestOf(payer))
      await running.attempt(1, UNIT)
      isFull = true
      assert.equal(await settle(running), UNIT)
      assert.deepEqual(reports, ['no space left on device'])
      const refused = { code: 'ledger_unavailable', retryAfterS: 5 }
      await assert.rejects(async () => ledger.hold(requestOf(payer)), refused)
      isFull = false
      await assert.rejects(async () => ledger.hold(requestOf(payer)), refused)
      nowMs += 1_000
      await serve(ledger, payer, 1)
      assert.equal(statSync(reserve).size, 4 * 1024 * 1024)
      await ledger.close()
      assert.deepEqual(await accountOf(payer), { posted: 2 * UNIT, held: 0, requests: 2 })
    })

    const suspenseOf = ({ userId }: Payer) =>
      gateway.db.selectFrom('suspense').select('amount').where('user_id', '=', userId).execute()

    it('records a request whose settlement the disk refused before the process was killed', async () => {
      const node = nodeDir()
      const payer = await newPayer()
      const books = createBooks(gateway.db, engine)
      const killed = Promise.withResolvers<void>()
      let batches = 0
      async function apply(...batch: Parameters<Books['apply']>): Promise<void> {
        if (++batches === 1) return books.apply(...batch)
        killed.resolve()
        return new Promise(() => {})
      }
      let isFull = false
      const files = filesOn(write => {
        if (isFull) throw new Error('no space left on device')
        write()
      })
      const ledger = await open(node, { change: { apply }, files, applyEveryMs: 3_600_000 })
      const refused = await ledger.hold(requestOf(payer))
      await refused.attempt(1, 3 * UNIT)
      // Two of these do not fit into one batch.
      const large = { channelId: 1, cost: UNIT, log: { ...USAGE, content: 'x'.repeat(300_000) } }
      await (await ledger.hold(requestOf(payer))).settle(large)
      isFull = true
      await assert.rejects(refused.settle(large), /the journal cannot be written: .* space left/)
      void ledger.barrier()
      await killed.promise

      await (await open(node)).close()
      assert.deepEqual(await accountOf(payer), { posted: UNIT, held: 0, requests: 2 })
      assert.deepEqual(await suspenseOf(payer), [{ amount: 3 * UNIT }])
      await mustVerify()
    })

    it('is read from a request whose settlement the disk refused, until it is written', async () => {
      const node = nodeDir()
      const payer = await newPayer()
      const books = createBooks(gateway.db, engine)
      const oldest: number[] = []
      async function apply(...[id, batch]: Parameters<Books['apply']>): Promise<void> {
        oldest.push(batch.oldestOpenLsn)
        await books.apply(id, batch)
      }
      let isFull = false
      let nowMs = Date.now()
      const files = filesOn(write => {
        if (isFull) throw new Error('no space left on device')
        write()
      })
      // Batches are applied by the barriers only.
      const ledger = await open(node, {
        change: { apply },
        files,
        nowMs: () => nowMs,
        applyEveryMs: 3_600_000,
      })
      const refused = await ledger.hold(requestOf(payer))
      isFull = true
      await assert.rejects(settle(refused), /space left/)
      await ledger.barrier()
      isFull = false
      nowMs += 1_000
      await serve(ledger, payer, 1)
      await ledger.barrier()
      await ledger.close()
      assert.deepEqual(oldest, [1, 6])
      assert.deepEqual(await accountOf(payer), { posted: 2 * UNIT, held: 0, requests: 2 })
    })

    it('records every unfinished request when a start on a full disk is killed', async () => {
      const node = nodeDir()
      const payer = await newPayer()
      const killed = await open(node)
      /** More than recovery applies in one batch. */
      const count = 600
      const holds = await Promise.all(
        Array.from({ length: count }, () => killed.hold({ ...requestOf(payer), amount: UNIT })),
      )
      await Promise.all(holds.map(hold => hold.attempt(1, UNIT)))
      const books = createBooks(gateway.db, engine)
      let batches = 0
      async function apply(...batch: Parameters<Books['apply']>): Promise<void> {
        if (++batches > 1) throw new Error('the process is killed')
        await books.apply(...batch)
      }
      const files = filesOn(() => {
        throw new Error('no space left on device')
      })
      await assert.rejects(open(node, { change: { apply }, files }), /the process is killed/)

      await (await open(node)).close()
      assert.deepEqual(await accountOf(payer), { posted: 0, held: 0, requests: count })
      assert.equal((await suspenseOf(payer)).length, count)
      await mustVerify()
    })

    it('keeps its numbers without a gap when the disk rejects a commit', async () => {
      const node = nodeDir()
      const payer = await newPayer()
      let isFull = false
      let nowMs = Date.now()
      /** A disk may report a failure although it has written the data. */
      let writesDespiteFailure = false
      const files = filesOn(write => {
        if (!isFull || writesDespiteFailure) write()
        if (isFull) throw new Error('no space left on device')
      })
      const ledger = await open(node, { files, nowMs: () => nowMs })
      await serve(ledger, payer, 1)
      const holds = [await ledger.hold(requestOf(payer)), await ledger.hold(requestOf(payer))]
      isFull = true
      for (const [index, refused] of holds.entries()) {
        writesDespiteFailure = index === 1
        await assert.rejects(refused.attempt(1, UNIT), /the journal cannot be written: .* space left/)
        refused.release()
      }
      await assert.rejects(async () => ledger.hold(requestOf(payer)), { code: 'ledger_unavailable' })
      isFull = false
      nowMs += 1_000
      await serve(ledger, payer, 2)
      await ledger.close()
      const reports: string[] = []
      await (await open(node, { reports })).close()
      assert.deepEqual(reports, [])
      assert.deepEqual(await accountOf(payer), { posted: 3 * UNIT, held: 0, requests: 3 })
    })
  })
}
