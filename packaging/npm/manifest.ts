import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs'

/**
 * The program in `dist` contains its packages, so the npm package has no dependencies. `npm pack` takes `package.json` from
 * the working directory: `prepack` puts the manifest of the package there, and `postpack` puts back the one of the checkout.
 */

const MANIFEST = 'package.json'
const CHECKOUT_MANIFEST = 'package.json.checkout'
const FIELDS = ['name', 'version', 'description', 'license', 'type', 'private', 'bin', 'files'] as const
const ENGINES = { node: '>=26' }

export function packageManifest(checkout: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return { ...Object.fromEntries(FIELDS.map(field => [field, checkout[field]])), engines: ENGINES }
}

function restore(): void {
  if (existsSync(CHECKOUT_MANIFEST)) renameSync(CHECKOUT_MANIFEST, MANIFEST)
}

function replace(): void {
  // A pack that was killed has not restored it.
  restore()
  const text = readFileSync(MANIFEST, 'utf8')
  const manifest = packageManifest(JSON.parse(text))
  writeFileSync(CHECKOUT_MANIFEST, text)
  writeFileSync(MANIFEST, `${JSON.stringify(manifest, null, 2)}\n`)
}

const ACTIONS: Readonly<Record<string, () => void>> = { replace, restore }

if (import.meta.main) {
  const action = ACTIONS[process.argv[2] ?? '']
  if (!action) throw new Error('usage: manifest.ts replace|restore')
  action()
}
