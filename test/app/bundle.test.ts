import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { runInThisContext } from 'node:vm'
import { asciiOf, publishProgram } from '../../bundle.ts'

describe('a build', () => {
  let place: string
  let dist: string
  before(() => {
    place = mkdtempSync(join(tmpdir(), 'sluice-bundle-'))
    dist = join(place, 'dist')
    writeFileSync(join(place, 'package.json'), '{"type":"module"}')
  })
  after(() => rmSync(place, { recursive: true, force: true }))

  /** A program that loads one of its files only on request. */
  function build(version: string): Promise<string> {
    const draft = join(place, 'draft')
    rmSync(draft, { recursive: true, force: true })
    mkdirSync(draft)
    writeFileSync(join(draft, 'late.js'), `console.log('late ${version}')\n`)
    writeFileSync(
      join(draft, 'main.js'),
      `console.log('main ${version}')\nprocess.stdin.once('data', () => import('./late.js').then(() => process.exit()))\n`,
    )
    return publishProgram(draft, dist)
  }
  const run = () =>
    execFileSync(process.execPath, [join(dist, 'main.js')], { input: 'go on\n', encoding: 'utf8' })
  const builds = () => readdirSync(dist).filter(name => statSync(join(dist, name)).isDirectory())

  it('is used by the next start, and does not replace the files of a running gateway', async () => {
    await build('one')
    const running = spawn(process.execPath, [join(dist, 'main.js')], { stdio: ['pipe', 'pipe', 'inherit'] })
    let output = ''
    running.stdout.setEncoding('utf8').on('data', text => {
      output += text
    })
    await once(running.stdout, 'data')
    await build('two')
    assert.equal(run(), 'main two\nlate two\n')
    running.stdin.write('go on\n')
    await once(running, 'close')
    assert.equal(output, 'main one\nlate one\n')
  })

  it('of the same files is the same build', async () => {
    assert.equal(await build('two'), await build('two'))
    assert.equal(builds().length, 2)
  })

  it('removes all but two older builds, and is the only one in a package', async () => {
    for (const version of ['three', 'four', 'five']) await build(version)
    assert.equal(builds().length, 3)
    assert.equal(run(), 'main five\nlate five\n')
    const newest = basename(await build('five'))
    const ignored = readFileSync(join(dist, '.npmignore'), 'utf8')
    for (const name of builds()) assert.equal(ignored.includes(name), name !== newest)
  })
})

describe('the code of a build', () => {
  it('is ASCII, and means the same', () => {
    const code = `({
      text: 'naïve 中文 💩', escaped: 'a\\—b', backslash: 'a\\\\—b', template: \`\${1}…\`,
      matches: /^[é—]\\\\?💩$/u.test('—\\\\💩') && /[\u4e00-\u9fff]/.test('中'), 'ключ': 1, // comment: 中
    })`
    const asciiCode = asciiOf(code)
    assert.match(code, /[^\0-\x7f]/)
    assert.doesNotMatch(asciiCode, /[^\0-\x7f]/)
    const value = runInThisContext(code)
    assert.equal(value.escaped, 'a—b')
    assert.equal(value.backslash, 'a\\—b')
    assert.equal(value.matches, true)
    assert.deepEqual(runInThisContext(asciiCode), value)
  })

  it('is not written if a raw template would mean something else', () => {
    assert.throws(() => asciiOf('const text = String.raw`a—b`'), /raw template/)
    assert.equal(asciiOf('const text = String.raw`a`; const other = "—"').includes('\\u2014'), true)
  })
})
