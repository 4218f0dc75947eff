import assert from 'node:assert/strict'
import { copyFileSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { oneEngine } from '../../support/engines.ts'
import { ENGINES } from '../../support/gateway.ts'
import { createStoppedBooks, type StoppedBooks, type Tampering } from '../../support/stopped-books.ts'

const anchorsOf = (dataDir: string) => join(dataDir, 'anchors.log')
const untouched: Tampering = async () => {}

const withoutLine = (index: number): Tampering =>
  async function removeLine({ dataDir }) {
    const lines = readFileSync(anchorsOf(dataDir), 'utf8').split('\n')
    writeFileSync(anchorsOf(dataDir), lines.toSpliced(index, 1).join('\n'))
  }

for (const engine of ENGINES)
  describe(`a ${engine} store restored to an earlier state, with every digest in it valid`, () => {
    let books: StoppedBooks
    const missing = (lines: readonly string[], chain: string) =>
      lines.find(line => new RegExp(`^anchors: ${chain}: \\d+ records are missing at its end`).test(line))
    before(async () => {
      books = await createStoppedBooks(engine)
    })
    after(() => books.close())

    it('is behind the anchors, which show how many records are missing', async () => {
      const { ok, lines } = await books.verifyAfter(untouched, { from: 'middle' })
      assert.equal(ok, false)
      for (const chain of ['audit', 'store', 'node:\\S+'])
        assert.ok(missing(lines, chain), `${chain}\n${lines.join('\n')}`)
    })

    it('is behind the anchors in the journals if the anchor file was removed', async () => {
      const { ok, lines } = await books.verifyAfter(async ({ dataDir }) => rmSync(anchorsOf(dataDir)), {
        from: 'middle',
      })
      assert.equal(ok, false)
      assert.match(missing(lines, 'store') ?? '', /the journal of/)
    })

    it('is behind a copy of the anchors that was kept elsewhere, if all else was removed', async () => {
      const anchorCopy = join(books.spare, 'kept.log')
      await books.verifyAfter(async ({ dataDir }) => copyFileSync(anchorsOf(dataDir), anchorCopy))
      const removeEvidence: Tampering = async ({ dataDir }) => {
        rmSync(anchorsOf(dataDir))
        rmSync(join(dataDir, 'nodes'), { recursive: true })
      }
      const blind = await books.verifyAfter(removeEvidence, { from: 'middle' })
      const seeing = await books.verifyAfter(removeEvidence, {
        from: 'middle',
        verify: { anchorFile: anchorCopy },
      })
      assert.equal(blind.ok, true, blind.lines.join('\n'))
      assert.equal(seeing.ok, false)
      assert.match(missing(seeing.lines, 'store') ?? '', /kept\.log/)
    })

    it('is still detected after the gateway has continued with it: other records have replaced the lost ones', async () => {
      const { ok, lines } = await books.verifyAfter(untouched, { from: 'middle', between: 'served' })
      assert.equal(ok, false)
      assert.ok(
        lines.some(line => /^anchors: store: record \d+ is not the one that was anchored/.test(line)),
        lines.join('\n'),
      )
      // The journal restored what the node had settled, under the same links.
      assert.ok(!lines.some(line => line.startsWith('anchors: node:')), lines.join('\n'))
    })

    it('is accepted as a restore with a reason, in the audit log, and later anchors are checked again', async () => {
      const verify = { acceptRestore: 'restored last night’s backup' }
      const { ok, lines } = await books.verifyAfter(untouched, {
        from: 'middle',
        between: 'restarted',
        verify,
      })
      assert.ok(ok, lines.join('\n'))
      assert.match(lines[0] ?? '', /^accepted the loss of records in a restore .*store/)
      await assert.rejects(books.verifyAfter(untouched, { verify }), /nothing to accept/)
    })
  })

for (const engine of oneEngine('sqlite'))
  describe(`the anchor file beside a ${engine} store`, () => {
    let books: StoppedBooks
    before(async () => {
      books = await createStoppedBooks(engine)
    })
    after(() => books.close())

    const says = async (tamper: Tampering, expected: RegExp) => {
      const { ok, lines } = await books.verifyAfter(tamper)
      assert.equal(ok, false, lines.join('\n'))
      assert.ok(
        lines.some(line => expected.test(line)),
        lines.join('\n'),
      )
    }

    it('reveals a line that was removed from its middle', () =>
      says(withoutLine(1), /^anchors: lines are missing before line 2 of anchors\.log/))

    it('reveals a line that was removed from its end, because the journal has it', () =>
      says(withoutLine(3), /^anchors: \S+anchors\.log lacks the line of .* which the journal of/))

    it('reveals a line that was changed', () =>
      says(async ({ dataDir }) => {
        const text = readFileSync(anchorsOf(dataDir), 'utf8')
        writeFileSync(anchorsOf(dataDir), text.replace(/"seq":\d+/, '"seq":1'))
      }, /^anchors: line 1 of anchors\.log was changed/))

    it('may be moved away, as log rotation does', async () => {
      const { ok, lines } = await books.verifyAfter(
        async ({ dataDir }) => renameSync(anchorsOf(dataDir), join(dataDir, 'rotated')),
        { between: 'restarted' },
      )
      assert.ok(ok, lines.join('\n'))
    })

    it('may end with half a line, as after a power failure', async () => {
      const { ok, lines } = await books.verifyAfter(
        async ({ dataDir }) => {
          const text = readFileSync(anchorsOf(dataDir), 'utf8')
          writeFileSync(anchorsOf(dataDir), `${text}{"time":1700000000,"node":"x","heads":[{"chain"`)
        },
        { between: 'restarted' },
      )
      assert.ok(ok, lines.join('\n'))
    })
  })
