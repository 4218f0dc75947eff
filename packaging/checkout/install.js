// Installs the packages that a part of this checkout misses: `node install.js gateway|console|test` (docs/adr/0043-*).
// Node.js 20 runs this file, because the Node.js of the lock file is one of the packages.
import { spawn } from 'node:child_process'
import {
  appendFileSync,
  existsSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const MODULES = join(ROOT, 'node_modules')
const LOCK_FILE = join(ROOT, 'package-lock.json')
/** npm's list of the packages. */
const INSTALLED = join(MODULES, '.package-lock.json')
/** Our stamps and locks: they disappear together with the packages. */
const STATE = join(MODULES, '.sluice')

/** The folders of a part's manifests, with those of the parts that it needs, and its size for the message. */
const PARTS = {
  gateway: { folders: [''], size: '320 MB' },
  console: { folders: ['', 'console'], size: '490 MB' },
  test: { folders: ['', 'console', 'test'], size: '780 MB' },
}

/** npm knows no option for "the root and these workspaces" when there are none of these. */
function filters(folders) {
  const workspaces = folders.filter(folder => folder !== '').map(folder => `--workspace=${folder}`)
  if (workspaces.length === 0) return ['--workspaces=false']
  return folders.includes('') ? ['--include-workspace-root', ...workspaces] : workspaces
}

const readJson = path => (existsSync(path) ? JSON.parse(readFileSync(path, 'utf8')) : undefined)

/** Where a package finds a dependency: in its own node_modules, or in that of a folder above. */
function resolve(packages, from, name) {
  for (let folder = from; ; folder = folder.replace(/(^|\/)[^/]*$/, '')) {
    const path = join(folder, 'node_modules', name)
    if (packages[path] !== undefined) return path
    if (folder === '') return undefined
  }
}

/** The C library of Linux, as lock files name it. */
const libc = () => (process.report.getReport().header.glibcVersionRuntime === undefined ? 'musl' : 'glibc')

const isFor = ({ os, cpu, libc: libraries }) =>
  (os === undefined || os.includes(process.platform)) &&
  (cpu === undefined || cpu.includes(process.arch)) &&
  (libraries === undefined || libraries.includes(libc()))

/** npm writes its list when a command has succeeded: it has not completed what has changed since then. */
const listedMs = () => statSync(INSTALLED, { throwIfNoEntry: false })?.mtimeMs ?? 0

const isOlder = (folder, timeMs) =>
  (statSync(folder, { throwIfNoEntry: false })?.mtimeMs ?? Infinity) <= timeMs

/** Whether npm has installed all that a part's manifest needs on this machine, in the versions of the lock file. */
function isComplete(part) {
  const { packages } = readJson(LOCK_FILE)
  const timeMs = listedMs()
  const paths = new Set([part])
  // Iterating a set includes the elements added meanwhile.
  for (const path of paths) {
    const { dependencies, optionalDependencies, version } = packages[path]
    const folder = join(ROOT, path)
    const isInstalled = () =>
      isOlder(folder, timeMs) && readJson(join(folder, 'package.json'))?.version === version
    if (path !== part && !isInstalled()) return false
    for (const name of Object.keys({ ...dependencies, ...optionalDependencies })) {
      const dependency = resolve(packages, path, name)
      if (dependency !== undefined && isFor(packages[dependency])) paths.add(dependency)
    }
  }
  return true
}

/** What npm renames a package to while it replaces it. */
const REPLACED = /^\..+-[A-Za-z0-9]{8}$/

/** The packages in a folder `node_modules`, with those inside of packages. */
function* packageFolders(modules) {
  if (!existsSync(modules)) return
  for (const entry of readdirSync(modules, { withFileTypes: true })) {
    const path = join(modules, entry.name)
    if (!entry.isDirectory() || (entry.name.startsWith('.') && !REPLACED.test(entry.name))) continue
    if (entry.name.startsWith('@')) yield* packageFolders(path)
    else {
      yield* packageFolders(join(path, 'node_modules'))
      yield path
    }
  }
}

/** Removes what an interrupted command of npm has left behind: npm would take half a package for a whole one. */
function removeIncomplete() {
  const timeMs = listedMs()
  for (const folder of packageFolders(MODULES))
    if (!isOlder(folder, timeMs)) rmSync(folder, { recursive: true, force: true })
}

/** A process, by its id and its start: ids are used again. Undefined if it has ended. */
function processName(pid) {
  try {
    // The name of the program is in parentheses, and may contain spaces. State and start are fields 3 and 22.
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
      .replace(/^.*\) /s, '')
      .split(' ')
    return fields[0] === 'Z' ? undefined : `${pid} ${fields[19]}`
  } catch {
    if (existsSync('/proc/self/stat')) return undefined
  }
  try {
    process.kill(pid, 0)
    return String(pid)
  } catch (error) {
    return error.code === 'EPERM' ? String(pid) : undefined
  }
}

const lockPath = number => join(STATE, `lock.${number}`)

const lockNumbers = () =>
  readdirSync(STATE)
    .map(name => Number(/^lock\.(\d+)$/.exec(name)?.[1]))
    .filter(number => number > 0)
    .sort((a, b) => b - a)

/** The process that holds a lock: the installer or its npm, which goes on when the installer is killed. */
function holderOf(number) {
  try {
    const names = readFileSync(lockPath(number), 'utf8').split('\n')
    return names.find(name => name !== '' && processName(Number.parseInt(name, 10)) === name)
  } catch {
    // The next one has removed it.
    return undefined
  }
}

/**
 * Takes the lock. Locks are numbered, and only one process can create the next one: so two processes that see that a holder
 * was killed do not both replace it. The last lock stays, with nothing in it when it is released. Returns the lock's file.
 */
async function takeLock() {
  mkdirSync(STATE, { recursive: true })
  const draft = join(STATE, `draft.${process.pid}`)
  for (let isWaiting = false; ; ) {
    const [last = 0] = lockNumbers()
    const holder = last === 0 ? undefined : holderOf(last)
    if (holder !== undefined) {
      if (!isWaiting)
        console.error(`sluice: waiting for process ${holder.split(' ')[0]}, which installs packages`)
      isWaiting = true
      await setTimeout(200)
      continue
    }
    const own = last + 1
    writeFileSync(draft, `${processName(process.pid)}\n`)
    try {
      linkSync(draft, lockPath(own))
    } catch (error) {
      if (error.code !== 'EEXIST') throw error
      continue
    } finally {
      rmSync(draft, { force: true })
    }
    const [highest, ...lower] = lockNumbers()
    if (highest !== own) {
      // Others have taken and released locks since this process has looked.
      rmSync(lockPath(own), { force: true })
      continue
    }
    for (const number of lower) rmSync(lockPath(number), { force: true })
    return lockPath(own)
  }
}

/** Runs npm, and returns its exit code and the end of its output. */
function runNpm(args, lock) {
  const npm = spawn('npm', args, { cwd: ROOT, stdio: ['ignore', 'pipe', 'pipe'] })
  if (npm.pid !== undefined) appendFileSync(lock, `${processName(npm.pid)}\n`)
  let output = ''
  for (const stream of [npm.stdout, npm.stderr])
    stream.setEncoding('utf8').on('data', text => {
      output = (output + text).slice(-4_000)
    })
  const stop = () => {
    npm.kill()
    process.exit(1)
  }
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP']) process.once(signal, stop)
  return new Promise((end, fail) => {
    npm.once('error', fail)
    npm.once('close', code => end({ code, output }))
  }).finally(() => {
    for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP']) process.removeListener(signal, stop)
  })
}

const NETWORK_ERROR =
  /code (E(CONN\w+|TIMEDOUT|AI_AGAIN|NOTFOUND|NETUNREACH|HOSTUNREACH|PIPE|INTEGRITY|IDLETIMEOUT|429|5\d\d)|ERR_SOCKET\w+|FETCH_ERROR)\b/
const TRIES = 3

/**
 * Adds what folders need. `npm ci` would remove the packages of a running gateway first. Warnings are about the Node.js of the
 * machine, on which Sluice does not run.
 */
async function install(folders, lock) {
  const options = ['--no-save', '--package-lock', '--include=optional', '--loglevel=error', '--no-progress']
  for (let tries = 1; ; tries++) {
    removeIncomplete()
    const { code, output } = await runNpm(['install', ...options, ...filters(folders)], lock)
    // npm ignores packages for certain machines only, Node.js among them, when it cannot download them.
    const isDone = code === 0 && folders.every(isComplete)
    if (isDone) return
    const mayRetry = code === 0 || NETWORK_ERROR.test(output)
    if (tries < TRIES && mayRetry) await setTimeout(tries * 2_000)
    else if (code !== 0) throw new Error(`npm could not install the packages:\n${output.trim()}`)
    else throw new Error('npm has not installed all packages: see "npm ls" and "npm config list"')
  }
}

/** The stamp says that a part is installed: as long as it equals the lock file, and npm has changed nothing since. */
function writeStamp(part, lockFile) {
  mkdirSync(STATE, { recursive: true })
  writeFileSync(join(STATE, part), lockFile)
}

async function main(part) {
  const { folders, size } = PARTS[part]
  if (!existsSync(LOCK_FILE) || /[\\/]node_modules[\\/]/.test(ROOT))
    throw new Error(`packages are installed only into a checkout, which ${ROOT} is not`)
  const lockFile = readFileSync(LOCK_FILE)
  if (!folders.every(isComplete)) {
    const lock = await takeLock()
    try {
      // Another process may have installed them meanwhile.
      const missing = folders.filter(folder => !isComplete(folder))
      if (missing.length > 0) {
        console.error(`sluice: installing packages for "${part}" (node_modules, ${size} in all) …`)
        await install(missing, lock)
      }
    } finally {
      writeFileSync(lock, '')
    }
  }
  writeStamp(part, lockFile)
}

const [, , part = ''] = process.argv
try {
  if (Number.parseInt(process.versions.node, 10) < 20)
    throw new Error(
      `Node.js 20 or newer is needed to install the packages (this is ${process.versions.node})`,
    )
  if (!Object.hasOwn(PARTS, part)) throw new Error(`usage: install.js ${Object.keys(PARTS).join('|')}`)
  await main(part)
} catch (error) {
  const isNpmMissing = error.code === 'ENOENT' && error.syscall === 'spawn npm'
  console.error(
    `sluice: ${isNpmMissing ? 'npm 9 or newer is needed to install the packages' : error.message}`,
  )
  process.exit(1)
}
