import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { describe, it } from 'node:test'
import { providers } from '../src/providers/index.ts'
import {
  ASSERT_DURATIONS,
  CALL_FETCH,
  NEED_PROGRAMS,
  SET_TIMEOUTS,
  SHORT_TIMEOUTS,
  WAIT_FOR_TIME,
} from './support/law-exceptions.ts'
import {
  arrowsOf,
  commentWords,
  cycleIn,
  declaredAmong,
  exportedTypes,
  importsName,
  importsOf,
  loadedWith,
  type TimingFacts,
  timingOf,
} from './support/sources.ts'

/**
 * The layers of the program, top first. Imports point down; modules of one layer do not import each other.
 */
const FLOORS: readonly (readonly string[])[] = [
  ['main'],
  ['app'],
  ['relay', 'manage', 'cli'],
  ['http', 'ledger', 'routing', 'identity', 'store', 'telemetry', 'workers', 'fleet'],
  ['providers'],
  ['media'],
  ['chat'],
  ['requests'],
  ['models', 'metering', 'metrics', 'override', 'alerts', 'host'],
  ['wire', 'http1', 'domain'],
]

/** The console reads the contract too, so it may import only zod and constants. */
const CONTRACT_MAY_IMPORT = /^(zod$|src\/manage\/contract\/|src\/domain\/)/

/**
 * What the console may import of the product: the contract, and the part of the domain that a browser can
 * run, so that no rule is written twice.
 */
const CONSOLE_MAY_IMPORT = /^(console\/|src\/manage\/contract\/|src\/domain\/)/

const files = globSync('src/**/*.ts')
const consoleFiles = globSync('console/src/**/*.{ts,tsx}')
/** Providers that are named by their type, not by a vendor. */
const COMMON_WORDS = new Set(['Custom'])

const simulatorFiles = globSync('simulator/**/*.ts')
const testFiles = globSync('test/**/*.ts')
const arrows = arrowsOf(files)
const inside = arrows.filter(({ to }) => to.startsWith('src/'))

/** `main.ts`, directly under src/, starts the program: it is the top layer. */
const roomOf = (file: string) => (file.split('/').length === 2 ? 'main' : (file.split('/')[1] as string))
const floorOf = (file: string) => FLOORS.findIndex(rooms => rooms.includes(roomOf(file)))

describe('the architecture', () => {
  it('has no module that the plan does not list', () => {
    const unknown = files.filter(file => floorOf(file) === -1)
    assert.deepEqual(unknown, [])
  })

  it('has no import that points up or sideways', () => {
    const wrong = inside
      .filter(({ from, to }) => roomOf(from) !== roomOf(to) && floorOf(to) <= floorOf(from))
      .map(({ from, to }) => `${from} → ${to}`)
    assert.deepEqual(wrong, [])
  })

  for (const [name, of] of [
    ['the product', files],
    ['the console', consoleFiles],
    ['the simulator', simulatorFiles],
  ] as const)
    it(`has no import cycle in ${name}`, () => {
      assert.equal(cycleIn(of, arrowsOf(of))?.join(' → '), undefined)
    })

  it('lets a chat format import its own family and the hub, and lets the hub import no format', () => {
    const familyOf = (file: string) => file.split('/')[2] as string
    const wrong = inside
      .filter(({ from, to }) => from.startsWith('src/chat/') && to.startsWith('src/chat/'))
      .filter(({ from, to }) => {
        // A file of the room itself belongs to no family.
        if (from.split('/').length === 3) return false
        return familyOf(to) !== familyOf(from) && familyOf(to) !== 'hub'
      })
      .map(({ from, to }) => `${from} → ${to}`)
    assert.deepEqual(wrong, [])
  })

  it('keeps the contract free of everything but zod and constants', () => {
    const wrong = arrows.filter(
      ({ from, to }) => from.startsWith('src/manage/contract/') && !CONTRACT_MAY_IMPORT.test(to),
    )
    assert.deepEqual(wrong, [])
  })

  it('lets nothing of the product import tests, benchmarks or the simulator, except the demo', () => {
    const wrong = arrows.filter(
      ({ from, to }) => /^(test|bench|simulator)\//.test(to) && from !== 'src/app/demo/demo.ts',
    )
    assert.deepEqual(wrong, [])
  })

  it('lists the packages of the gateway and of the console in their manifests', () => {
    const packagesOf = (folder: string) =>
      Object.keys(JSON.parse(readFileSync(`${folder}package.json`, 'utf8')).dependencies)
    const nameOf = (request: string) => /^(?:@[^/]+\/)?[^/]+/.exec(request)?.[0] ?? request
    const wrong = (from: readonly string[], packages: readonly string[]) =>
      from
        .flatMap(file => importsOf(file).map(to => ({ file, name: nameOf(to) })))
        // Paths from the root, modules of Node.js and of plugins, and names that are computed.
        .filter(({ name }) => !/^(src|simulator|console|node:.*|virtual:.*|lucide:.*|\W.*)$/.test(name))
        .filter(({ file, name }) => file !== 'src/app/demo/postgres.ts' && !packages.includes(name))
        .map(({ file, name }) => `${file} → ${name}`)
    const gateway = packagesOf('')
    assert.deepEqual(wrong([...files, ...simulatorFiles], gateway), [])
    assert.deepEqual(wrong(consoleFiles, [...gateway, ...packagesOf('console/')]), [])
  })

  it('lets the console import the contract and the domain, and nothing else of the product', () => {
    const wrong = consoleFiles
      .flatMap(from => importsOf(from).map(to => ({ from, to })))
      .filter(({ to }) => /^(src|test|simulator|bench|console)\//.test(to) && !CONSOLE_MAY_IMPORT.test(to))
    assert.deepEqual(wrong, [])
  })

  it('lets the console import nothing of the product that a browser cannot run', () => {
    const next = Map.groupBy(arrows, ({ from }) => from)
    const dependencies = new Set(consoleFiles.flatMap(importsOf).filter(to => to.startsWith('src/')))
    // Iterating a set includes the elements added meanwhile.
    for (const file of dependencies) for (const { to } of next.get(file) ?? []) dependencies.add(to)
    const wrong = [...dependencies].filter(name => !name.startsWith('src/') && name !== 'zod')
    assert.deepEqual(wrong, [])
  })

  it('loads no package for the start that only management requests need', () => {
    const loaded = new Set(['src/app/serve.ts', 'src/app/worker.ts'])
    for (const file of loaded)
      if (file.startsWith('src/')) for (const name of loadedWith(file)) loaded.add(name)
    const wrong = ['fastify', 'zod', 'undici'].filter(name => loaded.has(name))
    assert.deepEqual(wrong, [])
    assert.ok(loaded.has('kysely') && loaded.has('src/app/gateway.ts'))
  })

  it('keeps vendor names and raw colours out of the console', () => {
    const names = providers.map(({ name }) => name).filter(name => !COMMON_WORDS.has(name))
    const vendor = new RegExp(`\\b(${names.map(name => RegExp.escape(name)).join('|')})\\b`)
    const wrong = consoleFiles.filter(file => {
      const text = readFileSync(file, 'utf8')
      return vendor.test(text) || /#[0-9a-f]{6}\b|#[0-9a-f]{3}\b(?!\w)|\brgba?\(/i.test(text)
    })
    assert.deepEqual(wrong, [])
  })

  it('reads the environment in one place', () => {
    const wrong = files.filter(
      file =>
        /process\.env/.test(readFileSync(file, 'utf8')) &&
        !['src/app/config.ts', 'src/main.ts'].includes(file),
    )
    assert.deepEqual(wrong, [])
  })
})

/** The project's style: names are nouns, verbs or claims, and sentences name their subject. */
describe('the language', () => {
  const BARE_PARTICIPLES = new Set(
    (
      'told given asked said spoken known found made kept held taken left begun sent written seen named met wanted ' +
      'heard passed shown joined'
    ).split(' '),
  )
  const VAGUE = /^(whoever|somebody|nobody|anybody|whatever)$/i
  const readable = [...files, ...consoleFiles, ...simulatorFiles]

  it('has fewer than 20 names that are bare participles', () => {
    const bare = [...readable, ...testFiles].flatMap(file => declaredAmong(file, BARE_PARTICIPLES))
    assert.ok(bare.length < 20, bare.map(({ name, at }) => `${at} ${name}`).join('\n'))
  })

  for (const [name, of] of [
    ['the product', readable],
    ['the tests', testFiles],
  ] as const)
    it(`declares the name of an exported type in one file of ${name} only`, () => {
      const byName = Map.groupBy(of.flatMap(exportedTypes), type => type.name)
      const twice = [...byName].filter(([, places]) => new Set(places.map(({ at }) => at)).size > 1)
      assert.deepEqual(
        twice.map(([type, places]) => `${type}: ${places.map(({ at }) => at).join(', ')}`),
        [],
      )
    })

  it('names its subjects in comments: vague pronouns are below 0.5 in 1,000 words', () => {
    const words = [...readable, ...testFiles].flatMap(commentWords)
    const vague = words.filter(word => VAGUE.test(word)).length
    assert.ok((vague / words.length) * 1_000 < 0.5, `${vague} in ${words.length} words`)
  })
})

/** What makes tests steady on a busy machine, and what each of the two suites may need (docs/development.md: Tests). */
describe('the tests', () => {
  const testFiles = globSync('test/**/*.test.ts').sort()
  const TIMEOUTS = new Set(['first_byte_ms', 'idle_ms', 'total_ms'])
  const facts = new Map(testFiles.map(file => [file, timingOf(file, TIMEOUTS)]))
  const filesWith = (hasProperty: (facts: TimingFacts) => boolean) =>
    [...facts].filter(([, each]) => hasProperty(each)).map(([file]) => file)

  /** The files with a property are exactly those of a list, which only gets shorter. */
  function mustBeExactly(listed: readonly string[], actual: readonly string[], instead: string): void {
    const more = actual.filter(file => !listed.includes(file))
    assert.deepEqual(more, [], `${instead} The lists of test/support/law-exceptions.ts only get shorter.`)
    const obsolete = listed.filter(file => !actual.includes(file))
    assert.deepEqual(obsolete, [], 'No exceptions any more. Delete them from test/support/law-exceptions.ts.')
  }

  it('send requests with the client that retries what a busy gateway refuses', () => {
    const actual = filesWith(({ calls }) => calls.has('fetch'))
    mustBeExactly(CALL_FETCH, actual, 'Use `retryingFetch` (test/support/client.ts).')
  })

  it('wait for a condition, not for a time', () => {
    const waiting = testFiles.filter(file => importsName(file, 'node:timers/promises', 'setTimeout'))
    mustBeExactly(WAIT_FOR_TIME, waiting, 'Use `until` (test/support/wait.ts).')
    const timing = filesWith(({ calls }) => calls.has('setTimeout')).filter(file => !waiting.includes(file))
    mustBeExactly(SET_TIMEOUTS, timing, 'Use `until` (test/support/wait.ts), or an injected clock.')
  })

  it('give a good answer 10 s at least', () => {
    const actual = filesWith(({ timeoutsMs }) => timeoutsMs.some(ms => ms > 0 && ms < 10_000))
    mustBeExactly(SHORT_TIMEOUTS, actual, 'A shorter timeout is only for an upstream that never answers.')
  })

  it('assert no duration', () => {
    const actual = filesWith(({ assertsDuration }) => assertsDuration)
    mustBeExactly(ASSERT_DURATIONS, actual, 'Use an injected clock, or count the steps.')
  })

  it('need a browser, several machines or other programs only in test/system', () => {
    const next = Map.groupBy(arrowsOf(globSync('test/**/*.ts')), ({ from }) => from)
    const names = ['balancer', 'browser', 'example-proxy', 'fleet', 'patroni', 'programs']
    const systemOnly = names.map(name => `test/support/${name}.ts`)
    const actual = testFiles.filter(file => {
      if (file.startsWith('test/system/')) return false
      const reached = new Set([file])
      // Iterating a set includes the elements added meanwhile.
      for (const from of reached) for (const { to } of next.get(from) ?? []) reached.add(to)
      return systemOnly.some(name => reached.has(name))
    })
    mustBeExactly(NEED_PROGRAMS, actual, 'Move the file to test/system.')
  })
})
