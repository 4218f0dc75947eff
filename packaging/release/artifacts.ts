import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { copyFileSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import { createConsoleBuilds } from '../../src/host/console-files.ts'
import { buildBinary } from '../binary/build.ts'
import { notesOf } from './changelog.ts'
import { type Bom, packagesIn, shippedComponents } from './components.ts'

/**
 * Makes the files of a release in `release/`: the npm package, the executable for this machine, the files for systemd,
 * proxies and Kubernetes, the list of components (SBOM), the notes and the checksums.
 */

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const RELEASE = join(ROOT, 'release')
const FOLDERS = ['packaging/systemd', 'packaging/proxy', 'packaging/kubernetes']

const read = (path: string) => readFileSync(path, 'utf8')
const run = (program: string, ...args: string[]) =>
  execFileSync(program, args, { cwd: ROOT, encoding: 'utf8', maxBuffer: 64 * 1024 * 1024 })

/** The licenses that the builds of the program and the console contain. */
async function licenses(): Promise<string> {
  const [, build = ''] = /'\.\/([0-9a-f]+)\//.exec(read(join(ROOT, 'dist/main.js'))) ?? []
  const [consoleBuild = ''] = await createConsoleBuilds()()
  return `${read(join(ROOT, 'dist', build, 'licenses.txt'))}\n${read(join(consoleBuild, 'licenses.md'))}`
}

const checksum = (name: string) =>
  `${createHash('sha256')
    .update(readFileSync(join(RELEASE, name)))
    .digest('hex')}  ${name}\n`

rmSync(RELEASE, { recursive: true, force: true })
mkdirSync(RELEASE)
const { version } = JSON.parse(read(join(ROOT, 'package.json'))) as { version: string }

run('npm', 'pack', '--pack-destination', RELEASE)
const binary = await buildBinary()
writeFileSync(
  join(RELEASE, `sluice-${version}-${process.platform}-${process.arch}.gz`),
  gzipSync(readFileSync(binary)),
)
const bom = JSON.parse(run('npm', 'sbom', '--sbom-format', 'cyclonedx', '--package-lock-only')) as Bom
const shipped = shippedComponents(bom, packagesIn(await licenses()), process.versions.node)
writeFileSync(join(RELEASE, `sluice-${version}.sbom.json`), `${JSON.stringify(shipped, null, 2)}\n`)
run('tar', '-czf', join(RELEASE, `sluice-${version}-deploy.tgz`), 'compose.yaml', ...FOLDERS)
copyFileSync(join(ROOT, 'LICENSE'), join(RELEASE, 'LICENSE'))
writeFileSync(join(RELEASE, 'NOTES.md'), `${notesOf(read(join(ROOT, 'CHANGELOG.md')), version)}\n`)
writeFileSync(join(RELEASE, 'SHA256SUMS'), readdirSync(RELEASE).sort().map(checksum).join(''))
console.log(`${dirname(join(RELEASE, 'x'))}: ${readdirSync(RELEASE).join(', ')}`)
