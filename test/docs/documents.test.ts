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

/** The first group of every match, with the document that contains it. */
const matchesOf = (pattern: RegExp, textOf = (path: string) => read(path)) =>
  documents.flatMap(path => [...textOf(path).matchAll(pattern)].map(([, match = '']) => ({ path, match })))

/** The anchor of a heading, as common Markdown renderers make it. */
const anchorOf = (heading: string) =>
  heading
    .toLowerCase()
    .replaceAll(/[`*]|[^\p{L}\p{N}\s_-]/gu, '')
    .trim()
    .replaceAll(/\s/g, '-')

const anchorsIn = (path: string) =>
  [...withoutCode(read(path)).matchAll(/^#+\s+(.+)$/gm)].map(([, heading = '']) => anchorOf(heading))

describe('the documents', () => {
  it('are in the repository', () => {
    for (const path of ['README.md', 'ARCHITECTURE.md', 'docs/operating/settings.md', 'simulator/README.md'])
      assert.ok(documents.includes(path), path)
  })

  it('link only to files and headings that exist', () => {
    const links = matchesOf(/\]\(([^)\s]+)\)/g, path => withoutCode(read(path)))
    assert.ok(links.length > 10)
    for (const { path, match } of links) {
      if (/^[a-z]+:/.test(match)) continue
      const [file = '', anchor] = match.split('#')
      const target = file === '' ? path : join(dirname(path), file)
      assert.ok(existsSync(join(root, target)), `${path} links to ${match}`)
      if (anchor !== undefined) assert.ok(anchorsIn(target).includes(anchor), `${path} links to ${match}`)
    }
  })

  it('name only files that exist', () => {
    const names = matchesOf(/`((?:src|test|docs|bench|console|simulator)\/[\w./-]*\w)`/g)
    assert.ok(names.length > 10)
    for (const { path, match } of names) {
      // A fresh clone has no build output.
      if (match === 'console/dist') continue
      assert.ok(existsSync(join(root, match)), `${path} names ${match}`)
    }
  })

  it('name only scripts that npm can run', () => {
    const { scripts } = JSON.parse(read('package.json')) as { scripts: Record<string, string> }
    const scriptNames = matchesOf(/npm run (?:--silent )?([\w:-]+)/g)
    assert.ok(scriptNames.length > 5)
    for (const { path, match } of scriptNames)
      assert.ok(Object.hasOwn(scripts, match), `${path} runs ${match}`)
  })

  it('quote messages as the program prints them', () => {
    const starters = ['packaging/checkout/run', 'packaging/checkout/install.js', 'packaging/npm/sluice.cjs']
    const source = [...starters, ...globSync('src/**/*.ts', { cwd: root })].map(read).join('\n')
    const tables = [
      ['docs/troubleshooting.md', 'The gateway does not start'],
      ['docs/operating/backup.md', 'When a journal is damaged'],
    ] as const
    for (const [path, heading] of tables) {
      const [, section = ''] = read(path).split(`## ${heading}\n`)
      const rows = (section.split('\n## ')[0] ?? '').matchAll(/^\| (`[^|]+) \|/gm)
      const messages = [...rows].flatMap(([, cell = '']) =>
        cell.split('`').filter((_, index) => index % 2 === 1),
      )
      assert.ok(messages.length > 3, path)
      for (const message of messages)
        for (const part of message.split(/^[A-Z_]+ |…|between X and Y|in X|\b[ABNXY]\b|127\.0\.0\.1:3000/))
          if (part.length > 6) assert.ok(source.includes(part.trim()), `${path} quotes "${message}"`)
    }
  })

  it('list every environment variable and runtime setting, and no other', () => {
    const documented = [...read('docs/operating/settings.md').matchAll(/^\| `(\w+)`/gm)].map(
      ([, name = '']) => name,
    )
    const variables =
      read('src/app/config.ts').match(/\b(SLUICE_[A-Z_]+|DATABASE_(?:REPLICA_)?URL|PORT|HOST)\b/g) ?? []
    assert.deepEqual(documented.toSorted(), [...new Set(variables), ...Object.keys(SETTINGS)].sort())
  })

  it('list every variable of OpenTelemetry that the gateway reads, and no other', () => {
    const [, section = ''] = read(join('docs/reference', 'tracing.md')).split('## Settings\n')
    const variablesIn = (text: string) => [...new Set(text.match(/\bOTEL_[A-Z_]+\b/g))].sort()
    const table = (section.split('\n## ')[0] ?? '').match(/^\| .*$/gm)?.join('\n') ?? ''
    assert.deepEqual(variablesIn(table), variablesIn(read('src/app/config.ts')))
  })
})
