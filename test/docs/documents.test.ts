import assert from 'node:assert/strict'
import { existsSync, globSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { SETTINGS } from '../../src/domain/setting.ts'

const root = join(import.meta.dirname, '../..')
const read = (path: string) => readFileSync(join(root, path), 'utf8')

const documents = globSync('**/*.md', {
  cwd: root,
  exclude: path => /(^|\/)(node_modules|dist|data)$/.test(path),
})
const withoutCode = (text: string) => text.replaceAll(/^```[\s\S]*?^```/gm, '')

/** What is found in the documents, with the document it stands in. */
const found = (pattern: RegExp, textOf = (path: string) => read(path)) =>
  documents.flatMap(path => [...textOf(path).matchAll(pattern)].map(([, what = '']) => ({ path, what })))

/** The address of a heading, as the usual readers of Markdown make it. */
const anchorOf = (heading: string) =>
  heading
    .toLowerCase()
    .replaceAll(/[`*]|[^\p{L}\p{N}\s_-]/gu, '')
    .trim()
    .replaceAll(/\s/g, '-')

const anchorsIn = (path: string) =>
  [...withoutCode(read(path)).matchAll(/^#+\s+(.+)$/gm)].map(([, heading = '']) => anchorOf(heading))

describe('the documents', () => {
  it('are found', () => {
    for (const path of ['README.md', 'ARCHITECTURE.md', 'docs/settings.md', 'simulator/README.md'])
      assert.ok(documents.includes(path), path)
  })

  it('have no relative link that leads nowhere', () => {
    const links = found(/\]\(([^)\s]+)\)/g, path => withoutCode(read(path)))
    assert.ok(links.length > 10)
    for (const { path, what } of links) {
      if (/^[a-z]+:/.test(what)) continue
      const [file = '', anchor] = what.split('#')
      const target = file === '' ? path : join(dirname(path), file)
      assert.ok(existsSync(join(root, target)), `${path} links to ${what}`)
      if (anchor !== undefined) assert.ok(anchorsIn(target).includes(anchor), `${path} links to ${what}`)
    }
  })

  it('name only files that exist', () => {
    const names = found(/`((?:src|test|docs|bench|console|simulator)\/[\w./-]*\w)`/g)
    assert.ok(names.length > 10)
    for (const { path, what } of names) assert.ok(existsSync(join(root, what)), `${path} names ${what}`)
  })

  it('name only scripts that npm can run', () => {
    const { scripts } = JSON.parse(read('package.json')) as { scripts: Record<string, string> }
    const named = found(/npm run (?:--silent )?([\w:-]+)/g)
    assert.ok(named.length > 5)
    for (const { path, what } of named) assert.ok(Object.hasOwn(scripts, what), `${path} runs ${what}`)
  })

  it('tell every setting of the start and of the running gateway, and no other', () => {
    const told = [...read('docs/settings.md').matchAll(/^\| `(\w+)`/gm)].map(([, name = '']) => name)
    const variables = read('src/app/config.ts').match(/\b(SLUICE_[A-Z_]+|DATABASE_URL|PORT|HOST)\b/g) ?? []
    assert.deepEqual(told.toSorted(), [...new Set(variables), ...Object.keys(SETTINGS)].sort())
  })
})
