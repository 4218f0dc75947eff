import { execFileSync } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { buildProgram } from '../../bundle.ts'
import { createLog } from '../../src/app/log.ts'
import { createConsoleBuilds, createConsoleFiles } from '../../src/host/console-files.ts'

/**
 * Makes a single executable for the machine that this runs on: Node.js with the program and the console as assets
 * (docs/adr/0028-one-bundle-for-every-package.md).
 */

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const OUTPUT = join(ROOT, 'dist/binary', process.platform === 'win32' ? 'sluice.exe' : 'sluice')

/** Every file of a folder, by its path below `at` in the executable. */
function assetsOf(folder: string, at: string): Record<string, string> {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter(entry => entry.isFile())
  return Object.fromEntries(
    files
      .map(({ parentPath, name }) => join(parentPath, name))
      .filter(file => !file.endsWith('.map'))
      .map(file => [`${at}/${relative(folder, file)}`, file]),
  )
}

/** Answers the path of the executable. */
export async function buildBinary(): Promise<string> {
  const program = await buildProgram()
  await createConsoleFiles(createLog('warn')).prepare()
  const [consoleBuild] = await createConsoleBuilds()()
  if (consoleBuild === undefined) throw new Error('the console could not be built')
  const place = mkdtempSync(join(tmpdir(), 'sluice-binary-'))
  try {
    const start = join(place, 'main.js')
    writeFileSync(start, `import './${basename(dirname(program))}/main.js'\n`)
    const config = {
      main: join(ROOT, 'packaging/binary/main.cjs'),
      output: OUTPUT,
      useVfs: true,
      disableExperimentalSEAWarning: true,
      assets: {
        'program/package.json': join(ROOT, 'package.json'),
        'program/LICENSE': join(ROOT, 'LICENSE'),
        'program/dist/main.js': start,
        ...assetsOf(dirname(program), `program/dist/${basename(dirname(program))}`),
        ...assetsOf(consoleBuild, `program/console/dist/${basename(consoleBuild)}`),
      },
    }
    const configFile = join(place, 'config.json')
    writeFileSync(configFile, JSON.stringify(config))
    mkdirSync(dirname(OUTPUT), { recursive: true })
    rmSync(OUTPUT, { force: true })
    execFileSync(process.execPath, ['--build-sea', configFile], { stdio: ['ignore', 'ignore', 'inherit'] })
    chmodSync(OUTPUT, 0o755)
    return OUTPUT
  } finally {
    rmSync(place, { recursive: true, force: true })
  }
}

if (import.meta.main) await buildBinary()
