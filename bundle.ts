import { cp, rm, writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { isDeepStrictEqual } from 'node:util'
import { type ChunkingContext, type CodeSplittingOptions, type Plugin, rolldown } from 'rolldown'
import { licensesOf } from './packaging/licenses.ts'
import { publish } from './src/host/build-folders.ts'
import { builtName, LAZY_PACKAGES, tokensFile } from './src/host/program-file.ts'
import { tokenPrices } from './src/providers/prices/token-prices.ts'

/**
 * Makes `dist`, the program as it is shipped: a few files instead of fifteen hundred, so that it starts in half the time
 * and takes a quarter less memory. It contains its packages, so it runs without `node_modules`.
 *
 * Every build has a folder of its own, and `dist/main.js` starts the newest. A gateway that runs takes its threads and
 * workers from the folder it was started from, whatever is built meanwhile.
 */

const ROOT = fileURLToPath(new URL('.', import.meta.url))
const DIST = join(ROOT, 'dist')
const DRAFT = join(ROOT, `dist.${process.pid}`)
/** The files of the page that shows the API reference. */
const SWAGGER_UI = join(ROOT, 'node_modules/@fastify/swagger-ui/static')
const MAIN = `${builtName('main')}.js`

/** What is run as a thread or as another process, by its path from `src`. */
const OTHER_PROGRAMS = [
  'store/engine/sqlite-thread',
  'identity/bcrypt-thread',
  'relay/price/token-count-thread',
  'relay/operations/translation-thread',
  'cli/backup-thread',
  'cli/journal-thread',
  '../simulator/main',
]

const sourceOf = (path: string) => join('src', `${path}.ts`)

/** Optional packages of packages, which we do not install: their users handle the absence. */
const ABSENT = ['pg-native']
const isOutside = (id: string) => id.startsWith('node:') || ABSENT.includes(id)

/**
 * undici exports its parser as a buffer. Bundlers copy each member of what such a file exports, here one for every byte,
 * which takes some 50 ms of every start: as a module with a default export, nothing is copied.
 */
const parserAsModule: Plugin = {
  name: 'parser-as-module',
  transform: {
    filter: { id: /llhttp_simd-wasm\.js$/ },
    handler(code) {
      const base64 = /wasmBase64 = '([^']+)'/.exec(code)?.[1]
      if (base64 === undefined) throw new Error('The parser of undici is written in another way than before.')
      // The second name is what undici itself gets with `require`.
      const written = `const wasm = Buffer.from('${base64}', 'base64')
        export { wasm as default, wasm as 'module.exports' }`
      return { code: written, map: { mappings: '' } }
    },
  },
}

/** `a, { b as c }` or `* as d`, as in an import, as the left sides of declarations. */
function bindingsOf(clause: string): readonly string[] {
  const parts = /^(?:(?:\* as )?([\w$]+))?(?:, )?(\{.+\})?$/.exec(clause)
  if (parts === null) throw new Error(`An import is written in an unknown way: ${clause}`)
  const [, whole, named] = parts
  return [whole, named?.replaceAll(' as ', ': ')].filter(binding => binding !== undefined)
}

/**
 * An `import` of a module of Node.js reads everything that it exports: for node:http its own copy of undici, some 70 ms of every start,
 * and for the others together 15 ms. `getBuiltinModule` reads only what is used.
 */
const onlyUsedBuiltins: Plugin = {
  name: 'only-used-builtins',
  renderChunk(code) {
    const direct = code.replace(
      /^import ([^"]+) from ("node:[\w/]+");$/gm,
      (_import, clause: string, module: string) =>
        bindingsOf(clause)
          .map(binding => `const ${binding} = process.getBuiltinModule(${module});`)
          .join(' '),
    )
    const left = /^(import|export) .*"node:.+";$/m.exec(direct)
    if (left) throw new Error(`A chunk would load all of a module of Node.js: ${left[0]}`)
    // Each import stays on its line, and nothing before it on the line changes.
    return direct === code ? undefined : { code: direct, map: null }
  },
}

/**
 * Node.js keeps the source of a file with two bytes for each character, unless all of it is ASCII: 8 MiB of a gateway that serves its
 * management API. Escapes mean the same as the characters in strings, templates and regular expressions, but not in raw templates.
 */
const asAscii: Plugin = {
  name: 'as-ascii',
  generateBundle(_options, files) {
    for (const file of Object.values(files)) if (file.type === 'chunk') file.code = asciiOf(file.code)
  },
}

const RAW_TEMPLATE = /\bString\.raw`[^`]*[^\0-\x7f]/

/** Exported for its test. */
export function asciiOf(code: string): string {
  const raw = RAW_TEMPLATE.exec(code)
  if (raw !== null) throw new Error(`A raw template has a character that is not ASCII: ${raw[0]}`)
  return code.replace(/(\\*)([^\0-\x7f])/g, (_match, backslashes: string, character: string) => {
    // A backslash before the character itself means nothing, and must not escape the backslash of the escape.
    const otherBackslashes = backslashes.slice(backslashes.length % 2)
    return `${otherBackslashes}\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
  })
}

/** @fastify/static needs it for an option that we do not use. In a profile it took 20 of the 300 ms in which the management API is loaded. */
const withoutGlob: Plugin = {
  name: 'without-glob',
  transform: {
    filter: { id: /node_modules\/glob\/.+\.js$/ },
    handler() {
      const code = "module.exports.glob = () => { throw new Error('glob is not in a build') }"
      return { code, map: { mappings: '' } }
    },
  },
}

/** The package of the shipped prices. A build contains its data only. */
const PRICES = join(ROOT, 'node_modules/@pydantic/genai-prices/package.json')

/** The table of shipped prices takes some 60 ms to compute, at every start. A build contains the result. */
const pricesAsData: Plugin = {
  name: 'prices-as-data',
  transform: {
    filter: { id: /providers\/prices\/token-prices\.ts$/ },
    handler() {
      const table = tokenPrices()
      const json = JSON.stringify([...table])
      if (!isDeepStrictEqual(new Map(JSON.parse(json)), table))
        throw new Error('The table of shipped prices cannot be written as JSON.')
      const code = `export const tokenPrices = () => new Map(JSON.parse(${JSON.stringify(json)}))`
      return { code, map: { mappings: '' } }
    },
  },
}

/** Makes a draft the program that is started next. Answers its folder. */
export async function publishProgram(draft: string, dist: string): Promise<string> {
  const textFor = (name: string) => `#!/usr/bin/env node\nimport './${name}/${MAIN}'\n`
  return join(dist, await publish(draft, dist, { file: MAIN, textFor }))
}

/** The modules that a module imports statically, directly or not, with itself. */
function closureOf(id: string, context: ChunkingContext): ReadonlySet<string> {
  const closure = new Set<string>()
  const waiting = [id]
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    if (closure.has(next)) continue
    closure.add(next)
    waiting.push(...(context.getModuleInfo(next)?.importedIds ?? []))
  }
  return closure
}

/**
 * What these import is one chunk for each, without what the one before contains. The bundler would make fifty chunks of it, by
 * what else imports each module, and every chunk takes half a millisecond of a start.
 */
const LARGE_CHUNKS = ['main', 'app/store-and-keys', 'app/serve']

function largeChunks(): CodeSplittingOptions {
  const entry = join(ROOT, sourceOf('main'))
  const groups = LARGE_CHUNKS.map((path, index) => {
    let closure: ReadonlySet<string> | undefined
    return {
      debugName: path,
      priority: LARGE_CHUNKS.length - index,
      name(id: string, context: ChunkingContext) {
        closure ??= closureOf(join(ROOT, sourceOf(path)), context)
        // The entry waits until the program has ended: what it imports must not be in one chunk with it.
        return closure.has(id) && id !== entry ? builtName(path) : undefined
      },
    }
  })
  return { groups }
}

/** Bundles a program into the draft. Answers the modules it contains. */
async function bundle(
  path: string,
  file: string,
  codeSplitting: CodeSplittingOptions | true = true,
): Promise<readonly string[]> {
  const bundled = await rolldown({
    cwd: ROOT,
    input: { [builtName(path)]: file },
    platform: 'node',
    external: isOutside,
    plugins: [parserAsModule, pricesAsData, withoutGlob, onlyUsedBuiltins, asAscii],
    logLevel: 'warn',
  })
  try {
    const { output } = await bundled.write({
      dir: DRAFT,
      format: 'esm',
      chunkFileNames: 'part-[hash].js',
      sourcemap: true,
      sourcemapExcludeSources: true,
      comments: false,
      codeSplitting,
    })
    return output.flatMap(file => (file.type === 'chunk' ? file.moduleIds : []))
  } finally {
    await bundled.close()
  }
}

/** Answers where the program is then started: in this build, whatever others build later. */
export async function buildProgram(): Promise<string> {
  try {
    const modules = await Promise.all([
      bundle('main', sourceOf('main'), largeChunks()),
      // By themselves: with shared chunks, a thread would load most of the gateway.
      ...OTHER_PROGRAMS.map(path => bundle(path, sourceOf(path))),
      ...LAZY_PACKAGES.map(name => bundle(name, name)),
    ])
    await writeFile(join(DRAFT, 'licenses.txt'), licensesOf([...modules.flat(), PRICES]))
    await cp(SWAGGER_UI, join(DRAFT, 'swagger-ui'), { recursive: true })
    await cp(tokensFile(), join(DRAFT, basename(tokensFile().pathname)))
    return join(await publishProgram(DRAFT, DIST), MAIN)
  } finally {
    await rm(DRAFT, { recursive: true, force: true })
  }
}

if (import.meta.main) await buildProgram()
