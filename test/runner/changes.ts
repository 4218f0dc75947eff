import { execFileSync } from 'node:child_process'
import { globSync, readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { importsOf } from '../support/sources.ts'

const MODULES = ['bundle.ts', '{src,simulator,test,bench,packaging,console}/**/*.{ts,tsx}']
/** They run after every change. Of the laws, a sample does. */
const ALWAYS = ['test/architecture.test.ts', 'test/ledger/*.test.ts']
const LAWS = 'test/chat/laws.test.ts'
/** They read documents, and sources that they do not import. */
const READERS_OF_DOCUMENTS = ['test/docs/*.test.ts']
const READERS_OF_THE_CONSOLE = ['test/console/*.test.ts']

const git = (...args: readonly string[]) =>
  execFileSync('git', args, { encoding: 'utf8' })
    .split('\n')
    .filter(line => line !== '')

/** Changes of the work tree and of the commits that are not in the upstream branch. */
export function changedFiles(): readonly string[] {
  const [upstream] = git('for-each-ref', '--format=%(upstream:short)', git('symbolic-ref', 'HEAD')[0] ?? '')
  const base = upstream ? git('merge-base', upstream, 'HEAD')[0] : 'HEAD'
  return [...git('diff', '--name-only', base ?? 'HEAD'), ...git('ls-files', '--others', '--exclude-standard')]
}

/** Threads and programs are started by their address. */
const addressesIn = (file: string): readonly string[] =>
  [...readFileSync(file, 'utf8').matchAll(/new URL\('(\.[^']+\.ts)'/g)].map(([, path = '']) =>
    normalize(join(dirname(file), path)),
  )

/** What each module is imported by. */
function importers(modules: readonly string[]): ReadonlyMap<string, readonly string[]> {
  const arrows = modules.flatMap(from => [...importsOf(from), ...addressesIn(from)].map(to => ({ from, to })))
  return new Map(
    [...Map.groupBy(arrows, ({ to }) => to)].map(([to, group]) => [to, group.map(({ from }) => from)]),
  )
}

export type Reach = { readonly files: readonly string[]; readonly samplesLaws: boolean }

/**
 * The files among these that a change can reach by the import graph, and those that run after every change. A changed file
 * that is neither a module nor a document can reach everything.
 */
export function reachOf(changes: readonly string[], files: readonly string[]): Reach {
  const modules = globSync(MODULES, { exclude: ['**/node_modules/**', 'console/dist*/**'] })
  const isDocument = (file: string) => file.endsWith('.md') || file.startsWith('docs/')
  const isModule = (file: string) => /\.tsx?$/.test(file)
  if (changes.some(file => !isModule(file) && !isDocument(file) && !file.startsWith('console/')))
    return { files, samplesLaws: false }
  const reached = new Set([
    ...changes,
    ...globSync(ALWAYS),
    ...(changes.some(isDocument) ? globSync(READERS_OF_DOCUMENTS) : []),
    ...(changes.some(file => file.startsWith('console/')) ? globSync(READERS_OF_THE_CONSOLE) : []),
  ])
  const importersOf = importers(modules)
  // Iterating a set includes the elements added meanwhile.
  for (const file of reached) for (const importer of importersOf.get(file) ?? []) reached.add(importer)
  return {
    files: files.filter(file => reached.has(file) || file === LAWS),
    samplesLaws: !reached.has(LAWS),
  }
}
