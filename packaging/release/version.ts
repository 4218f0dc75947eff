import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { isNewer, released } from './changelog.ts'

/** `npm run release:version -- 0.2.0`: writes a new version wherever it stands, and closes the unreleased changes. */

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
/** Files with the name of the image. */
const IMAGES = [
  'compose.yaml',
  'packaging/kubernetes/deployment.yaml',
  'packaging/kubernetes/statefulset.yaml',
]

function change(path: string, edit: (text: string) => string): void {
  const file = join(ROOT, path)
  writeFileSync(file, edit(readFileSync(file, 'utf8')))
}

const [, , next = ''] = process.argv
const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { version: string }
if (!isNewer(next, version)) throw new Error(`${next} is not newer than ${version}`)
const date = new Date().toISOString().slice(0, 10)
change('CHANGELOG.md', text => released(text, next, date))
for (const path of IMAGES) change(path, text => text.replaceAll(`sluice:${version}`, `sluice:${next}`))
execFileSync('npm', ['version', next, '--no-git-tag-version'], { cwd: ROOT, stdio: 'inherit' })
console.log(`Commit this as "release: ${next}" and tag it v${next}.`)
