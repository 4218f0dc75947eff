import { cp, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { isDeepStrictEqual } from 'node:util'
import { type Plugin, rolldown } from 'rolldown'
import { licensesOf } from './packaging/licenses.ts'
import { publish } from './src/host/build-folders.ts'
import { builtName, LAZY_PACKAGES } from './src/host/program-file.ts'
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

/** What is run as a process or a thread, by its path from `src`. */
const PROGRAMS = [
  'main',
  'store/engine/sqlite-thread',
  'identity/bcrypt-thread',
  'relay/price/token-count-thread',
  'relay/operations/translation-thread',
  'cli/backup-thread',
  'cli/journal-thread',
  '../simulator/main',
]

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

/**
 * An `import` of node:http reads everything that it exports, and with it Node.js loads its own copy of undici: some 70 ms of
 * every start. `getBuiltinModule` reads only what is used.
 */
const httpWithoutUndici: Plugin = {
  name: 'http-without-undici',
  renderChunk(code) {
    const direct = code.replace(
      /^import (\{.+\}|\w+) from ("node:https?");$/gm,
      (_import, names: string, module: string) =>
        `const ${names.replaceAll(' as ', ': ')} = process.getBuiltinModule(${module});`,
    )
    const left = /^(import|export) .*"node:https?";$/m.exec(direct)
    if (left) throw new Error(`A chunk would load undici of Node.js: ${left[0]}`)
    // Each import stays on its line, and nothing before it on the line changes.
    return direct === code ? undefined : { code: direct, map: null }
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

/** Answers where the program is then started: in this build, whatever others build later. */
export async function buildProgram(): Promise<string> {
  const bundle = await rolldown({
    cwd: ROOT,
    input: {
      ...Object.fromEntries(PROGRAMS.map(path => [builtName(path), join('src', `${path}.ts`)])),
      ...Object.fromEntries(LAZY_PACKAGES.map(name => [builtName(name), name])),
    },
    platform: 'node',
    external: isOutside,
    plugins: [parserAsModule, pricesAsData, httpWithoutUndici],
    logLevel: 'warn',
  })
  try {
    const { output } = await bundle.write({
      dir: DRAFT,
      format: 'esm',
      chunkFileNames: 'part-[hash].js',
      sourcemap: true,
      sourcemapExcludeSources: true,
    })
    const modules = output.flatMap(file => (file.type === 'chunk' ? file.moduleIds : []))
    await writeFile(join(DRAFT, 'licenses.txt'), licensesOf([...modules, PRICES]))
    await cp(SWAGGER_UI, join(DRAFT, 'swagger-ui'), { recursive: true })
    return join(await publishProgram(DRAFT, DIST), MAIN)
  } finally {
    await bundle.close()
    await rm(DRAFT, { recursive: true, force: true })
  }
}

if (import.meta.main) await buildProgram()
