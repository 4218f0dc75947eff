import { createRequire } from 'node:module'

/** The name of a built file, from its path below `src`. A build has no folders. */
export const builtName = (path: string) => path.replace(/^\W+/, '').replaceAll('/', '-')

/** Whether this is a build of the program, and not its source. */
export const isBuilt = !import.meta.url.endsWith('.ts')

/** A file of the program to run as a thread or process, by its path below `src`; from source or built. */
export const programFile = (path: string) =>
  isBuilt ? new URL(`./${builtName(path)}.js`, import.meta.url) : new URL(`../${path}.ts`, import.meta.url)

/** The root of the package. A built file is as deep in it as this one: in the folder of its build. */
export const PACKAGE = new URL('../../', import.meta.url)

/** Packages that are loaded synchronously when they are needed first. A build has a file for each. */
export const LAZY_PACKAGES = ['@smithy/eventstream-codec', 'pino-pretty'] as const

export function requirePackage(name: (typeof LAZY_PACKAGES)[number]): unknown {
  const loaded = createRequire(import.meta.url)(isBuilt ? `./${builtName(name)}.js` : name)
  // The built file of a CommonJS package exports the package as its default.
  return isBuilt && 'default' in loaded ? loaded.default : loaded
}

/** The files of the page that shows the API reference; in a build only, because the package knows them otherwise. */
export const REFERENCE_FILES = isBuilt ? new URL('./swagger-ui/', import.meta.url) : undefined

const TOKENS = 'o200k_base.tiktoken'

/** The vocabulary with which tokens are counted. */
export const tokensFile = () =>
  isBuilt
    ? new URL(`./${TOKENS}`, import.meta.url)
    : new URL(import.meta.resolve(`gpt-tokenizer/data/${TOKENS}`))
