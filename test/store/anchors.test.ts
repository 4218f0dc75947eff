import assert from 'node:assert/strict'
import { existsSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { createChainKey } from '../../src/domain/chain.ts'
import { type Anchor, type AnchorHead, isGenuine, readAnchor } from '../../src/ledger/anchor.ts'
import { createAnchorFile, olderAnchorFile, readAnchorFile } from '../../src/ledger/anchor-file.ts'
import { type AnchorSink, createAnchors } from '../../src/ledger/anchors.ts'
import { runHere } from '../support/command.ts'
import { launch, logLines, newDirectory, newGround, run, settingsOf, until } from '../support/process.ts'

const KEY = createChainKey(Buffer.alloc(32, 9))
const head = (chain: string, seq: number): AnchorHead => ({ chain, seq, hash: `${chain} ${seq}` })

/** Anchors of chains whose heads a test moves, and the lines that were written. */
function createWriter(sink: AnchorSink | undefined) {
  const journal: { anchor: Anchor; isFiled: boolean }[] = []
  const failures: Error[] = []
  let heads: readonly AnchorHead[] = []
  const anchors = createAnchors({
    nodeId: 'node-1',
    key: KEY,
    sink,
    heads: async () => heads,
    journal: (anchor, isFiled) => void journal.push({ anchor, isFiled }),
    now: () => 1_700_000_000,
    onFailure: error => void failures.push(error),
  })
  return {
    anchors,
    journal,
    failures,
    move(...next: AnchorHead[]): void {
      heads = next
    },
  }
}

const linesOf = (path: string) =>
  readFileSync(path, 'utf8')
    .trim()
    .split('\n')
    .map(line => readAnchor(line))

const chainsOf = (anchor: Anchor | undefined) => anchor?.heads.map(({ chain }) => chain)

describe('anchors', () => {
  it('name every chain at the start, then only those that have grown', async () => {
    const path = join(newDirectory(), 'anchors.log')
    const { anchors, journal, move } = createWriter(createAnchorFile(path))
    move(head('audit', 1), head('store', 0))
    await anchors.start()
    await anchors.run()
    move(head('audit', 1), head('store', 4))
    await anchors.run()
    await anchors.close()
    assert.deepEqual(linesOf(path).map(chainsOf), [['audit', 'store'], ['store']])
    assert.deepEqual(
      journal.map(({ anchor, isFiled }) => [chainsOf(anchor), isFiled]),
      [[['store'], true]],
    )
  })

  it('are authenticated, and each contains the MAC of the one before, across processes', async () => {
    const path = join(newDirectory(), 'anchors.log')
    for (const seq of [1, 2, 3]) {
      const { anchors, move } = createWriter(createAnchorFile(path))
      move(head('store', seq))
      await anchors.start()
      move(head('store', seq * 10))
      await anchors.close()
    }
    const lines = linesOf(path).map(anchor => anchor as Anchor)
    assert.equal(lines.length, 6)
    assert.ok(lines.every(anchor => isGenuine(KEY, anchor)))
    assert.ok(!lines.some(anchor => isGenuine(createChainKey(Buffer.alloc(32, 8)), anchor)))
    assert.deepEqual(
      lines.map(({ previous }) => previous),
      ['', ...lines.slice(0, -1).map(({ mac }) => mac)],
    )
  })

  it('name every chain again once the file was moved away or emptied', async () => {
    const path = join(newDirectory(), 'anchors.log')
    const { anchors, move } = createWriter(createAnchorFile(path))
    move(head('audit', 1), head('store', 1))
    await anchors.start()
    rmSync(path)
    await anchors.run()
    assert.deepEqual(linesOf(path).map(chainsOf), [['audit', 'store']])
    writeFileSync(path, '')
    await anchors.run()
    assert.deepEqual(linesOf(path).map(chainsOf), [['audit', 'store']])
    await anchors.close()
  })

  it('continue in a new file when the file is full, and keep the older one', async () => {
    const path = join(newDirectory(), 'anchors.log')
    const { anchors, move } = createWriter(createAnchorFile(path, 1_000))
    for (let seq = 1; seq <= 20; seq++) {
      move(head('audit', 1), head('store', seq))
      await anchors.run()
    }
    await anchors.close()
    assert.ok(existsSync(olderAnchorFile(path)))
    assert.ok(statSync(path).size <= 2_000)
    // The first line of a file has no line before it, so it names every chain.
    assert.deepEqual(chainsOf(linesOf(path)[0]), ['audit', 'store'])
    assert.equal(statSync(path).mode & 0o777, 0o600)
  })

  it('of very many chains take several lines', async () => {
    const path = join(newDirectory(), 'anchors.log')
    const { anchors, move } = createWriter(createAnchorFile(path))
    move(...Array.from({ length: 250 }, (_, index) => head(`node:${index}`, 1)))
    await anchors.start()
    await anchors.close()
    assert.deepEqual(
      linesOf(path).map(anchor => anchor?.heads.length),
      [100, 100, 50],
    )
  })

  it('go to the journal when the file cannot be written, which is reported', async () => {
    const sink: AnchorSink = {
      isFile: true,
      append() {
        throw new Error('the disk is full')
      },
      rotateIfFull: () => false,
      last: () => undefined,
    }
    const { anchors, journal, failures, move } = createWriter(sink)
    move(head('store', 1))
    await anchors.run()
    await anchors.close()
    assert.deepEqual(
      journal.map(({ isFiled }) => isFiled),
      [false, false],
    )
    assert.match(String(failures[0]), /the disk is full/)
  })

  it('are read from a log that has other lines too', async () => {
    const path = join(newDirectory(), 'log')
    const { anchors, journal, move } = createWriter(undefined)
    await anchors.start()
    move(head('store', 1))
    await anchors.close()
    const [anchorRecord] = journal
    const lines = [
      'plain text',
      '{"level":"info","msg":"heads"}',
      '{"heads":[1]}',
      JSON.stringify(anchorRecord),
    ]
    writeFileSync(path, lines.join('\n'))
    const foundAnchors: unknown[] = []
    for await (const each of readAnchorFile(path)) foundAnchors.push(each)
    assert.deepEqual(foundAnchors, [{ line: 4, anchor: anchorRecord?.anchor }])
  })
})

describe('SLUICE_ANCHOR', () => {
  it('sends anchors to the log at every log level, and verify compares a copy of that log', async () => {
    const ground = await newGround('sqlite')
    const env = { SLUICE_ANCHOR: 'log', SLUICE_LOG: 'warn' }
    const program = launch(['start'], { env: settingsOf({ ...ground, env }) })
    await until('an anchor', () => (program.stdout().includes('"anchor"') ? true : undefined))
    program.signal('SIGTERM')
    const { stdout } = await program.ended
    assert.equal(logLines(stdout).filter(line => 'anchor' in line).length, 1)
    assert.ok(!existsSync(join(ground.dataDir, 'anchors.log')))
    const copy = join(newDirectory(), 'shipped.log')
    writeFileSync(copy, stdout)
    const good = await runHere(['verify', '--anchor', copy], { env: settingsOf({ ...ground, env }) })
    assert.equal(good.code, 0, good.stdout)
    assert.match(good.stdout, /^anchors: \d+ heads match \(shipped\.log: 1/m)
    for (const unreadable of [join(newDirectory(), 'absent.log'), newDirectory()]) {
      const args = ['verify', '--anchor', unreadable]
      const refused = await runHere(args, { env: settingsOf({ ...ground, env }) })
      assert.equal(refused.code, 1, refused.stdout)
      assert.match(refused.stderr, /^sluice: --anchor: \S+ cannot be read \((ENOENT|EISDIR)\)\n$/)
    }
    const without = join(newDirectory(), 'without.log')
    for (const content of ['', 'a line of another program\n']) {
      writeFileSync(without, content)
      const args = ['verify', '--anchor', without]
      const refused = await runHere(args, { env: settingsOf({ ...ground, env }) })
      assert.equal(refused.code, 1, refused.stdout)
      assert.match(refused.stderr, /^sluice: --anchor: \S+ has no anchors, so nothing was compared\n$/)
    }
    writeFileSync(copy, stdout.replace(/"seq":\d+/, '"seq":99'))
    const changed = await runHere(['verify', '--anchor', copy], { env: settingsOf({ ...ground, env }) })
    assert.equal(changed.code, 65)
    assert.match(changed.stdout, /^anchors: line \d+ of shipped\.log was changed/m)
  })

  it('fails the start with a message when the file cannot be written', async () => {
    const ground = await newGround('sqlite')
    const env = { SLUICE_ANCHOR: join(newDirectory(), 'nowhere', 'anchors.log') }
    const ended = await run(['start'], { env: settingsOf({ ...ground, env }) })
    assert.equal(ended.code, 78)
    assert.match(ended.stderr, /^sluice: SLUICE_ANCHOR must be a file [^\n]*\n$/)
  })
})
