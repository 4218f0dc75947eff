import assert from 'node:assert/strict'
import { isAscii } from 'node:buffer'
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process'
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'
import { buildProgram } from '../../../bundle.ts'
import { createLog } from '../../../src/app/log.ts'
import { createConsoleBuilds, createConsoleFiles } from '../../../src/host/console-files.ts'
import { createApi, ROOT_TOKEN } from '../../support/gateway.ts'
import { logLines, newDirectory, until } from '../../support/process.ts'
import { PROGRAM, PROGRAM_VARIABLE } from '../../support/program.ts'

const ROOT = fileURLToPath(new URL('../../../', import.meta.url))
const MAX_BYTES = 10_000_000
/** Node.js 26, which runs the tests, comes before the one of the machine. */
const PATH = `${dirname(process.execPath)}:${process.env.PATH}`
const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))

const npm = (args: readonly string[], cwd: string) =>
  execFileSync('npm', [...args], { cwd, encoding: 'utf8', env: { ...process.env, PATH }, stdio: 'pipe' })

/** A checkout with the newest builds, which `npm pack` does not build again. */
async function copyOfCheckout(): Promise<string> {
  const program = process.env[PROGRAM_VARIABLE] ? PROGRAM : await buildProgram()
  await createConsoleFiles(createLog('warn')).prepare()
  const [consoleBuild = ''] = await createConsoleBuilds()()
  const copy = newDirectory()
  for (const name of [
    'README.md',
    'LICENSE',
    'CHANGELOG.md',
    'package-lock.json',
    'packaging',
    'src/main.ts',
  ])
    cpSync(join(ROOT, name), join(copy, name), { recursive: true })
  // The scripts around the packing run with its Node.js.
  symlinkSync(join(ROOT, 'node_modules'), join(copy, 'node_modules'), 'dir')
  const build = basename(dirname(program))
  cpSync(dirname(program), join(copy, 'dist', build), { recursive: true })
  writeFileSync(join(copy, 'dist/main.js'), `import './${build}/main.js'\n`)
  cpSync(consoleBuild, join(copy, 'console/dist', basename(consoleBuild)), { recursive: true })
  const manifest = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
  manifest.scripts.build = 'node --version'
  writeFileSync(join(copy, 'package.json'), JSON.stringify(manifest))
  return copy
}

describe('the npm package', () => {
  let checkout: string
  let files: readonly string[]
  let place: string
  const tarball = () => join(checkout, `sluice-${version}.tgz`)
  const installed = (path: string) => join(place, 'node_modules/sluice', path)

  before(async () => {
    checkout = await copyOfCheckout()
    const before = readFileSync(join(checkout, 'package.json'), 'utf8')
    // A log of the scripts comes before the report.
    const output = npm(['pack', '--json', '--silent'], checkout)
    const report = JSON.parse(output.slice(output.search(/^[[{]$/m)))
    const [packed] = Object.values(report) as { files: { path: string }[] }[]
    files = packed?.files.map(({ path }) => path) ?? []
    assert.equal(readFileSync(join(checkout, 'package.json'), 'utf8'), before)
    place = newDirectory()
    npm(['install', '--offline', '--no-save', tarball()], place)
  })

  it('has code in ASCII only, which takes half the memory', () => {
    const chunks = files.filter(path => /^dist\/\w+\/[^/]+\.js$/.test(path))
    assert.ok(chunks.length > 10, files.join(', '))
    const others = chunks.filter(path => !isAscii(readFileSync(installed(path))))
    assert.deepEqual(others, [])
  })

  it('has at most 10 MB', () => {
    assert.ok(statSync(tarball()).size <= MAX_BYTES, `${statSync(tarball()).size} bytes`)
  })

  it('contains one build of the program, one of the console, the command, licenses and the documents', () => {
    const kinds = new Set(files.map(path => path.replace(/[0-9a-f]{16}\/.*/, 'BUILD')))
    assert.deepEqual(
      [...kinds].sort(),
      [
        'CHANGELOG.md',
        'LICENSE',
        'README.md',
        'console/dist/BUILD',
        'dist/BUILD',
        'dist/main.js',
        'package.json',
        'packaging/npm/load.cjs',
        'packaging/npm/sluice.cjs',
      ].sort(),
    )
    for (const folder of ['dist', 'console/dist']) {
      const builds = files.flatMap(path => path.match(new RegExp(`^${folder}/([0-9a-f]{16})/`))?.[1] ?? [])
      assert.equal(new Set(builds).size, 1)
    }
    assert.deepEqual(
      files.filter(path => /\.tsx?$|node_modules/.test(path)),
      [],
    )
    assert.ok(files.some(path => /^dist\/\w+\/licenses\.txt$/.test(path)))
    assert.ok(files.some(path => /^console\/dist\/\w+\/licenses\.md$/.test(path)))
  })

  it('depends on no other package, runs no install script and cannot be published by accident', () => {
    const manifest = JSON.parse(readFileSync(installed('package.json'), 'utf8'))
    assert.deepEqual(Object.keys(manifest).sort(), [
      'bin',
      'description',
      'engines',
      'files',
      'license',
      'name',
      'private',
      'type',
      'version',
    ])
    assert.equal(manifest.private, true)
    assert.deepEqual(manifest.engines, { node: '>=26' })
    assert.deepEqual(
      readdirSync(join(place, 'node_modules')).filter(name => !name.startsWith('.')),
      ['sluice'],
    )
  })

  describe('with an older Node.js', () => {
    it('says which version it needs and exits with 78', () => {
      const old = join(place, 'old.cjs')
      writeFileSync(
        old,
        `Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '20.19.5' } })`,
      )
      const { status, stderr } = spawnSync(
        process.execPath,
        ['--require', old, installed('packaging/npm/sluice.cjs'), 'start'],
        { encoding: 'utf8' },
      )
      assert.equal(stderr, 'Sluice needs Node.js 26 or newer (this is 20.19.5)\n')
      assert.equal(status, 78)
    })

    it('parses the command: its file has no syntax that came after ES5', () => {
      const text = readFileSync(installed('packaging/npm/sluice.cjs'), 'utf8')
      const code = text.replace(/\/\/.*$/gm, '')
      assert.doesNotMatch(code, /=>|`|\b(const|let|import|export|class|async|await)\b|\.\.\.|\?[.?]/)
    })
  })

  describe('after npm install', () => {
    let gateway: ChildProcess
    let output = ''
    let url: string
    before(async () => {
      mkdirSync(join(place, 'data'), { mode: 0o700 })
      gateway = spawn('npx', ['--no-install', 'sluice', 'start'], {
        cwd: place,
        env: { PATH, HOME: process.env.HOME ?? place, PORT: '0', SLUICE_ROOT_ACCESS_TOKEN: ROOT_TOKEN },
        stdio: ['ignore', 'pipe', 'inherit'],
        // npx does not pass signals on in all versions, so the whole group gets them.
        detached: true,
      })
      gateway.stdout?.setEncoding('utf8').on('data', text => {
        output += text
      })
      url = await until('the installed gateway to be ready', () => {
        if (gateway.exitCode !== null) throw new Error(`it exited with ${gateway.exitCode}: ${output}`)
        return logLines(output).find(({ msg }) => msg === 'Sluice is ready.')?.address as string | undefined
      })
    })
    after(() => {
      if (gateway.exitCode === null && gateway.pid !== undefined) process.kill(-gateway.pid, 'SIGKILL')
    })

    it('serves the console, the API reference and the built-in prices', async () => {
      const page = await fetch(`${url}/`)
      assert.match(await page.text(), /<div id="root">/)
      assert.equal((await fetch(`${url}/docs/static/swagger-ui-bundle.js`)).status, 200)
      const prices = await createApi(url, ROOT_TOKEN)('GET', '/api/price/?model=gpt-4o')
      assert.equal(prices.status, 200)
    })

    it('drains and exits on SIGTERM', async () => {
      process.kill(-(gateway.pid ?? 0), 'SIGTERM')
      await until(
        'the gateway to exit',
        () => (gateway.exitCode ?? gateway.signalCode ?? undefined) as unknown,
      )
      assert.ok(existsSync(join(place, 'data/sluice.db')))
    })
  })
})
