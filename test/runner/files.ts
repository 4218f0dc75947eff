import { globSync, readFileSync } from 'node:fs'
import { importsOf } from '../support/sources.ts'

/** `npm test`, `npm run test:system`, and the files that `npm run campaign` runs at full length. */
export type Suite = 'test' | 'system' | 'campaign'

const SYSTEM_FOLDER = 'test/system/'
/** What a file needs is known from its imports, also of the files that it imports. */
const FLEET = 'test/support/fleet.ts'
const BROWSER = 'test/support/browser.ts'
const OWN_PROCESS = 'test/support/own-process.ts'
/** Files with a longer form for campaigns look at this variable. */
const CAMPAIGN = 'SLUICE_CAMPAIGN'

const importsInTests = new Map<string, readonly string[]>()

function testImportsOf(file: string): readonly string[] {
  const cachedImports = importsInTests.get(file)
  if (cachedImports) return cachedImports
  const imports = importsOf(file).filter(name => name.startsWith('test/'))
  importsInTests.set(file, imports)
  return imports
}

/** Whether a file imports this one, directly or through others of the tests. */
function reaches(file: string, target: string): boolean {
  const reachableFiles = new Set([file])
  // Iterating a set includes the elements added meanwhile.
  for (const each of reachableFiles) {
    if (each === target) return true
    for (const next of testImportsOf(each)) reachableFiles.add(next)
  }
  return false
}

export const isSystem = (file: string): boolean => file.startsWith(SYSTEM_FOLDER)
/** A fleet has three processes that watch each other, so nothing runs beside it. */
export const hasFleet = (file: string): boolean => reaches(file, FLEET)
export const hasBrowser = (file: string): boolean => reaches(file, BROWSER)
export const hasOwnProcess = (file: string): boolean => reaches(file, OWN_PROCESS)

export function filesOf(suite: Suite): readonly string[] {
  const all = globSync('test/**/*.test.ts').sort()
  if (suite === 'campaign') return all.filter(file => readFileSync(file, 'utf8').includes(CAMPAIGN))
  return all.filter(file => isSystem(file) === (suite === 'system'))
}

/** The rooms of the other suite, in one line: what `npm test` has not run. */
export function describeSystemSuite(): string {
  const rooms = Map.groupBy(filesOf('system'), file => file.split('/')[2])
  const counts = [...rooms].map(([room, files]) => `${room} ${files.length}`)
  return `Not run here: kills, outages, fleets, backups, browsers, packages and other programs. npm run test:system runs them (files: ${counts.join(', ')}).`
}
