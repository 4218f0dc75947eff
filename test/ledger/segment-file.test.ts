import assert from 'node:assert/strict'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { crc32 } from 'node:zlib'
import { openDatabase } from '../../src/host/sqlite-open.ts'
import { createJournal } from '../../src/ledger/journal.ts'
import { diskFiles, type JournalFiles } from '../../src/ledger/journal-files.ts'
import { missingSuccessor, segmentPath } from '../../src/ledger/segments.ts'
import { createMemoryFiles } from '../support/memory-files.ts'

const DIR = '/journal'
const PATH = segmentPath(DIR, 1)

const openOn = (files: JournalFiles, { dir = DIR, segmentRecords = 1_000, fullSync = false } = {}) =>
  createJournal({
    dir,
    fullSync,
    files,
    segmentRecords,
    nowMs: Date.now,
    onReserveReleased: () => {},
    onSyncFailure: () => {},
  })
type Journal = ReturnType<typeof openOn>

const append = (journal: Journal, rid: string) => journal.append({ kind: 'release', rid }).lsn
const ridsOf = (journal: Journal, after = 0) =>
  [...journal.readWithoutGaps(after)].map(({ lsn, record }) => `${lsn} ${'rid' in record ? record.rid : ''}`)

/** Three commits with two, one and three records. */
const COMMITS = [['a', 'ü'], ['b'], ['c', '\u2028', '😀']]
const RECORDS = COMMITS.flat().map((rid, index) => `${index + 1} ${rid}`)

/** The content of a journal file with these commits, and its size after each of them. */
function writeCommits() {
  const { files, contents } = createMemoryFiles()
  const journal = openOn(files)
  const ends = COMMITS.map(commit => {
    for (const rid of commit) append(journal, rid)
    journal.flush()
    return contents.get(PATH)?.length ?? 0
  })
  journal.close()
  return { content: contents.get(PATH) as Buffer, ends }
}

function openWith(content: Buffer) {
  const { files, contents } = createMemoryFiles()
  contents.set(PATH, content)
  const journal = openOn(files)
  journal.resume({ after: 0, appliedLsn: 0 })
  return { journal, files }
}

describe('a closed journal', () => {
  it('rejects a record and writes nothing, not even to a file that has the number of its descriptor', async () => {
    const dir = mkdtempSync(join(tmpdir(), 'sluice-closed-'))
    const journal = openOn(diskFiles, { dir })
    append(journal, 'a')
    journal.close()
    journal.close()
    const path = join(dir, 'other')
    const other = diskFiles.openToWrite(path)
    try {
      const { committed } = journal.append({ kind: 'release', rid: 'b' })
      await assert.rejects(committed, /the journal cannot be written: it is closed/)
      assert.equal(other.size(), 0)
      assert.ok(readdirSync(dir).includes('reserve'))
    } finally {
      other.close()
      rmSync(dir, { recursive: true, force: true })
    }
  })

  it('has files that cannot be written after they were closed', () => {
    const dir = mkdtempSync(join(tmpdir(), 'sluice-closed-'))
    const file = diskFiles.openToWrite(join(dir, 'file'))
    file.close()
    for (const use of [() => file.write(Buffer.from('a'), 0), () => file.truncate(0), () => file.sync()])
      assert.throws(use, /the file is closed/)
    rmSync(dir, { recursive: true, force: true })
  })
})

describe('a journal file', () => {
  const { content, ends } = writeCommits()

  it('is text: JSON records, and a line for each commit', () => {
    const sum = crc32('{"kind":"release","rid":"b"}', 3)
    assert.match(content.toString(), /^#journal 1\n(?:\{.*\n){2}#commit 1 2 \d+\n/)
    assert.ok(content.toString().includes(`\n{"kind":"release","rid":"b"}\n#commit 3 1 ${sum}\n`))
  })

  it('has all complete commits, wherever it is cut off, and the next commit follows them', () => {
    for (let end = 0; end <= content.length; end++)
      // A file system may fill the end with zeros after a power failure.
      for (const zeros of [0, 1, 100]) {
        const { journal, files } = openWith(Buffer.concat([content.subarray(0, end), Buffer.alloc(zeros)]))
        const commits = ends.filter(each => each <= end).length
        const records = RECORDS.slice(0, COMMITS.slice(0, commits).flat().length)
        assert.deepEqual(ridsOf(journal), records)
        append(journal, 'next')
        journal.close()
        assert.deepEqual(ridsOf(openOn(files)), [...records, `${records.length + 1} next`])
      }
  })

  it('is refused or read up to a commit if any byte of it was changed, and never read wrongly', () => {
    let refused = 0
    for (let at = 0; at < content.length; at++)
      for (const bit of [1, 0x20]) {
        const changed = Buffer.from(content)
        changed[at] = (changed[at] as number) ^ bit
        try {
          const rids = ridsOf(openWith(changed).journal)
          // Only a change in the last commit may look like one that was cut off.
          assert.ok(at >= (ends[1] as number), `byte ${at}`)
          assert.deepEqual(rids, RECORDS.slice(0, 3))
        } catch (error) {
          assert.equal((error as Error).name, 'JournalDamageError', String(error))
          refused += 1
        }
      }
    assert.ok(refused > content.length)
  })

  it('is found at its end without reading all of it, whatever the size of the last commit', () => {
    const { files } = createMemoryFiles()
    const journal = openOn(files)
    append(journal, 'first')
    journal.flush()
    for (let count = 0; count < 3; count++) append(journal, 'x'.repeat(100_000))
    journal.close()
    const next = openOn(files)
    assert.equal(append(next, 'next'), 5)
    next.close()
    assert.equal(ridsOf(openOn(files), 4).join(), '5 next')
  })

  it('keeps its number when the disk cuts a commit off and refuses it', () => {
    const memory = createMemoryFiles()
    let room = Number.POSITIVE_INFINITY
    const files: JournalFiles = {
      ...memory.files,
      openToWrite(path) {
        const file = memory.files.openToWrite(path)
        return {
          ...file,
          write(bytes, position) {
            file.write(bytes.subarray(0, room), position)
            if (bytes.length > room) throw new Error('no space left on device')
          },
        }
      },
      fill() {
        throw new Error('no space left on device')
      },
    }
    const journal = openOn(files)
    append(journal, 'a')
    journal.flush()
    room = 10
    append(journal, 'a long name, so that the next commit is shorter')
    journal.flush()
    assert.equal(journal.unwritten(), 1)
    room = Number.POSITIVE_INFINITY
    append(journal, 'b')
    journal.close()
    assert.equal(ridsOf(openOn(memory.files)).length, 3)
  })

  it('has each record once when the disk does not confirm a commit, and then does', () => {
    const memory = createMemoryFiles()
    let isFailing = false
    const files: JournalFiles = {
      ...memory.files,
      openToWrite: path => ({
        ...memory.files.openToWrite(path),
        sync() {
          if (isFailing) throw new Error('input/output error')
        },
      }),
      fill() {
        throw new Error('no space left on device')
      },
    }
    const journal = openOn(files, { fullSync: true })
    append(journal, 'a')
    journal.flush()
    isFailing = true
    append(journal, 'b')
    journal.flush()
    isFailing = false
    append(journal, 'c')
    journal.close()
    assert.deepEqual(ridsOf(openOn(memory.files)), ['1 a', '2 b', '3 c'])
  })
})

describe('a journal whose files an earlier version wrote', () => {
  let dir: string
  before(() => {
    dir = mkdtempSync(join(tmpdir(), 'sluice-journal-'))
  })
  after(() => rmSync(dir, { recursive: true }))

  function writeSqlite(folder: string, records: readonly string[]): string {
    const path = join(folder, 'journal-0000000000000001.db')
    const db = openDatabase(path, { readOnly: false, timeoutMs: 1_000 })
    db.exec('PRAGMA journal_mode = WAL')
    db.exec('CREATE TABLE records (lsn INTEGER PRIMARY KEY, body TEXT NOT NULL, sum INTEGER NOT NULL) STRICT')
    // Two records in the first row.
    const [first = '', second = '', ...rest] = records.map(rid => JSON.stringify({ kind: 'release', rid }))
    const insert = db.prepare('INSERT INTO records (lsn, body, sum) VALUES (?, ?, ?)')
    insert.run(1, `${first}\n${second}`, crc32(`${first}\n${second}`, 1))
    for (const [index, body] of rest.entries()) insert.run(index + 3, body, crc32(body, index + 3))
    db.close()
    return path
  }

  it('reads them, and continues in a file of its own', () => {
    const folder = mkdtempSync(join(dir, 'node-'))
    writeSqlite(folder, ['a', 'b', 'c'])
    const journal = openOn(diskFiles, { dir: folder })
    assert.deepEqual(journal.resume({ after: 0, appliedLsn: 2 }), [])
    assert.equal(append(journal, 'd'), 4)
    journal.close()
    assert.deepEqual(
      readdirSync(folder)
        .filter(name => /^journal.*\.(?:db|log)$/.test(name))
        .sort(),
      ['journal-0000000000000001.db', 'journal-0000000000000004.log'],
    )
    const next = openOn(diskFiles, { dir: folder })
    assert.deepEqual(ridsOf(next, 1), ['2 b', '3 c', '4 d'])
    next.close()
    rmSync(segmentPath(folder, 4))
    assert.match(missingSuccessor(folder) ?? '', /the file that followed .*0001\.db is missing/)
    assert.throws(() => openOn(diskFiles, { dir: folder }), /the file that followed .*0001\.db is missing/)
  })

  it('is refused if a record of them was changed', () => {
    const folder = mkdtempSync(join(dir, 'node-'))
    const path = writeSqlite(folder, ['a', 'b', 'c'])
    const db = openDatabase(path, { readOnly: false, timeoutMs: 1_000 })
    db.exec(`UPDATE records SET body = replace(body, '"c"', '"x"')`)
    db.close()
    const journal = openOn(diskFiles, { dir: folder })
    assert.throws(
      () => journal.resume({ after: 0, appliedLsn: 0 }),
      /the checksum of record 3 does not match/,
    )
    journal.close()
  })
})
