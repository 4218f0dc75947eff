import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { MANAGEMENT_STATUS, RELAY_STATUS } from '../../src/domain/errors.ts'
import { CONDITIONS } from '../../src/domain/price.ts'
import { RATES, TOOLS } from '../../src/domain/rate.ts'
import { contract } from '../../src/manage/contract/index.ts'
import type { Access, Route } from '../../src/manage/contract/route.ts'
import { PATHS } from '../../src/relay/operations/index.ts'

const root = join(import.meta.dirname, '../..')
const read = (path: string) => readFileSync(join(root, path), 'utf8')
const FOLDER = 'docs/reference'

/** The text under a heading of a page, up to the next one. */
function sectionOf(page: string, heading: string): string {
  const [, text] = read(`${FOLDER}/${page}`).split(`\n## ${heading}\n`)
  assert.ok(text !== undefined, `${page} has a section ${heading}`)
  return text.split('\n## ')[0] ?? ''
}

/** The cells of the rows of a section's tables, without their headers. */
const rowsOf = (page: string, heading: string): readonly (readonly string[])[] =>
  sectionOf(page, heading)
    .split('\n')
    .filter((line, index, lines) => line.startsWith('| ') && !lines[index + 1]?.startsWith('| ---'))
    .filter(line => !line.startsWith('| ---'))
    .map(line =>
      line
        .split(' |')
        .slice(0, -1)
        .map(cell => cell.replace(/^\|? ?/, '').trim()),
    )

const unquoted = (cell = '') => cell.replaceAll('`', '')

const sources = globSync('{src,test,console,simulator,bench}/**/*.{ts,tsx,css,md,html}', {
  cwd: root,
  exclude: path => /(^|\/)(node_modules|dist)$/.test(path),
})
const linesOfSources = () =>
  sources.flatMap(path =>
    read(path)
      .split('\n')
      .map((line, index) => ({ line, at: `${path}:${index + 1}: ${line.trim()}` })),
  )

describe('citations in the source', () => {
  it('name no document that the repository lacks', () => {
    assert.ok(sources.length > 500)
    const outside = linesOfSources().filter(({ line }) =>
      /\b(?:spec|contract|design|faults|provider-protocols|console),? (?:section )?(?:\d|[A-E]\.?\d)/i.test(
        line,
      ),
    )
    assert.deepEqual(
      outside.map(({ at }) => at),
      [],
    )
  })

  it('name a page of the reference and one of its headings', () => {
    const citing = linesOfSources().filter(({ line }) => /docs\/reference\/[a-z-]+\.md/.test(line))
    assert.ok(citing.length > 100)
    const headings = new Map(
      globSync(`${FOLDER}/*.md`, { cwd: root }).map(path => [
        path,
        [...read(path).matchAll(/^## (.+)$/gm)].map(([, heading = '']) => heading),
      ]),
    )
    const isValid = (line: string) =>
      [...line.matchAll(/(docs\/reference\/[a-z-]+\.md)(?:: (.*))?/g)].every(([, page = '', rest = '']) =>
        headings
          .get(page)
          ?.some(heading => rest.startsWith(heading) && !/^[\w-]/.test(rest.slice(heading.length))),
      )
    assert.deepEqual(
      citing.filter(({ line }) => !isValid(line)).map(({ at }) => at),
      [],
    )
  })
})

describe('the reference', () => {
  it('lists every page in its index', () => {
    const pages = globSync('*.md', { cwd: join(root, FOLDER) }).filter(page => page !== 'README.md')
    const listed = [...read(`${FOLDER}/README.md`).matchAll(/^\| \[([a-z-]+\.md)\]/gm)].map(
      ([, page]) => page,
    )
    assert.deepEqual(listed.toSorted(), pages.sort())
  })

  it('has no repeated heading on a page', () => {
    for (const path of globSync(`${FOLDER}/*.md`, { cwd: root })) {
      const headings = read(path).match(/^#+ .+$/gm) ?? []
      assert.equal(new Set(headings).size, headings.length, path)
    }
  })

  it('lists every route of the management API with its access, and no other', () => {
    const ACCESS: Readonly<Record<Access, string>> = {
      public: 'public',
      user: 'User',
      admin: 'Admin',
      root: 'Root',
      key: 'sk- token',
      any: 'sk- token or User',
    }
    const rows = rowsOf('management-api.md', 'Routes').map(cells => cells.slice(0, 3).map(unquoted).join(' '))
    const routes = (Object.values(contract) as Route[]).map(
      ({ method, path, access }) => `${method} ${path.replace(/:(\w+)/g, '{$1}')} ${ACCESS[access]}`,
    )
    assert.deepEqual(rows.toSorted(), routes.sort())
  })

  it('lists every path of the relay', () => {
    const paths = rowsOf('relay-api.md', 'Relay routes').flatMap(([, cell]) => unquoted(cell).split(', '))
    for (const path of PATHS) assert.ok(paths.includes(path), path)
  })

  it('lists every error of both APIs with its status', () => {
    const management = rowsOf('errors.md', 'Management errors').map(([code, status]) => [
      unquoted(code),
      status,
    ])
    assert.deepEqual(
      Object.fromEntries(management),
      Object.fromEntries(Object.entries(MANAGEMENT_STATUS).map(([code, status]) => [code, String(status)])),
    )
    const relay = rowsOf('errors.md', 'Relay errors').map(([code, status, type]) => [
      unquoted(code),
      { status: Number(status), type: unquoted(type) },
    ])
    assert.deepEqual(Object.fromEntries(relay), RELAY_STATUS)
  })

  it('names every rate, tool and condition of a price', () => {
    const prices = sectionOf('money.md', 'Prices') + sectionOf('money.md', 'Variants')
    for (const name of [...RATES, ...TOOLS, ...CONDITIONS]) assert.ok(prices.includes(`\`${name}\``), name)
  })
})
