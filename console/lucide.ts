import { readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Plugin } from 'vite'

const PREFIX = 'lucide:'
const LIST = fileURLToPath(import.meta.resolve('@iconify-json/lucide/icons.json'))
/** The modules of the icons are "in" the package, so that the build lists it in its licenses. */
const PLACE = join(dirname(LIST), PREFIX)
const ICON = fileURLToPath(new URL('src/look/icon.ts', import.meta.url))
/** The package lacks it. */
const LICENSE = new URL('lucide-license.txt', import.meta.url)
const LICENSES_FILE = 'licenses.md'

/** What `createIcon` sets on the whole icon, and the package on each shape. */
const COMMON: Readonly<Record<string, string>> = {
  fill: 'none',
  stroke: 'currentColor',
  'stroke-width': '2',
  'stroke-linecap': 'round',
  'stroke-linejoin': 'round',
}

/** The shapes in the SVG code of an icon: `[['path', { d: 'M5 12h14' }]]`. */
function shapesOf(code: string): unknown[] {
  return [...code.matchAll(/<(\w+)([^>]*)>/g)].flatMap(([element, name = '', text = '']) => {
    const attributes = [...text.matchAll(/([\w-]+)="([^"]*)"/g)].map(([, key = '', value = '']) => [
      key,
      value,
    ])
    const own = attributes.filter(([key = '', value]) => COMMON[key] !== value)
    // Groups only share the common attributes.
    if (name === 'g' && own.length === 0) return []
    if (!['path', 'circle', 'rect'].includes(name)) throw new Error(`The shape ${element} is unknown.`)
    return [[name, Object.fromEntries(own)]]
  })
}

/**
 * The icons that the console imports, as components: `lucide:check`. The package has all icons in one file of 0.6 MB; as React
 * components they take 50 MB.
 */
export function lucide(): Plugin {
  let icons: Promise<Readonly<Record<string, { readonly body: string }>>> | undefined
  return {
    name: 'lucide',
    resolveId: id => (id.startsWith(PREFIX) ? join(dirname(LIST), id) : undefined),
    async load(id) {
      if (!id.startsWith(PLACE)) return undefined
      icons ??= readFile(LIST, 'utf8').then(text => JSON.parse(text).icons)
      const name = id.slice(PLACE.length)
      const icon = (await icons)[name]
      if (icon === undefined) throw new Error(`There is no icon "${name}".`)
      const shapes = JSON.stringify(shapesOf(icon.body))
      return `import { createIcon } from ${JSON.stringify(ICON)}\nexport default /* @__PURE__ */ createIcon(${shapes})`
    },
    generateBundle: {
      order: 'post',
      async handler(_options, files) {
        const list = files[LICENSES_FILE]
        if (list?.type !== 'asset') return
        const license = await readFile(LICENSE, 'utf8')
        const addLicense = (heading: string) => `${heading}\n\n${license.trim()}`
        list.source = String(list.source).replace(/^## @iconify-json\/lucide .*$/m, addLicense)
      },
    },
  }
}
