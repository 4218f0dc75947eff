import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'
import { parse } from 'yaml'
import { isNewer, notesOf, released } from '../../packaging/release/changelog.ts'
import { packagesIn, shippedComponents } from '../../packaging/release/components.ts'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const read = (path: string) => readFileSync(join(ROOT, path), 'utf8')

const CHANGELOG = `# Changelog

## Unreleased

Lines in bold need an action after an upgrade.

### Added: something

- One line.

## 0.1.0 (2026-10-01)

- The first version.
`

describe('a release', () => {
  it('has a newer semantic version', () => {
    for (const [next, current] of [
      ['0.1.1', '0.1.0'],
      ['0.10.0', '0.9.9'],
      ['1.0.0', '0.99.99'],
    ] as const) {
      assert.ok(isNewer(next, current))
      assert.ok(!isNewer(current, next))
    }
    assert.ok(!isNewer('1.0.0', '1.0.0'))
    for (const wrong of ['1.0', 'v1.0.0', '1.0.0-rc1', '']) assert.throws(() => isNewer(wrong, '0.1.0'))
  })

  it('turns the unreleased changes into those of a version, once', () => {
    const text = released(CHANGELOG, '0.2.0', '2026-11-17')
    assert.match(text, /## Unreleased\n\n## 0\.2\.0 \(2026-11-17\)\n\nLines in bold/)
    assert.match(notesOf(text, '0.2.0'), /^Lines in bold[\s\S]+- One line\.$/)
    assert.equal(notesOf(text, '0.1.0'), '- The first version.')
    assert.throws(() => released(text, '0.3.0', '2026-11-18'), /no unreleased changes/)
    assert.ok(notesOf(read('CHANGELOG.md'), JSON.parse(read('package.json')).version).length > 100)
  })

  it('lists the components that the builds contain, and Node.js', () => {
    const shipped = packagesIn(
      'pg 8.23.1 (MIT)\n\nCopyright 2010 (c) somebody\n\n## @scope/react - 19.3.1 (MIT)\n\nMIT',
    )
    assert.deepEqual([...shipped], ['pg@8.23.1', '@scope/react@19.3.1'])
    const component = (name: string, version: string) => ({ name, version, 'bom-ref': `${name}@${version}` })
    const bom = {
      metadata: { component: { name: 'checkout' } },
      components: [
        component('pg', '8.23.1'),
        component('@scope/react', '19.3.1'),
        component('vite', '8.3.5'),
      ],
      dependencies: [{ ref: 'pg@8.23.1', dependsOn: ['vite@8.3.5'] }, { ref: 'vite@8.3.5' }],
    }
    const result = shippedComponents(bom, shipped, '26.10.0')
    assert.deepEqual(
      result.components.map(({ name }) => name),
      ['pg', '@scope/react', 'node'],
    )
    assert.deepEqual(result.dependencies, [{ ref: 'pg@8.23.1', dependsOn: [] }])
    assert.throws(() => shippedComponents(bom, new Set(['left-pad@1.0.0']), '26.10.0'), /left-pad/)
  })
})

describe('the release workflow', () => {
  type Step = { readonly run?: string; readonly uses?: string }
  type Job = { readonly needs?: string | string[]; readonly steps: readonly Step[] }
  const { jobs, on } = parse(read('.github/workflows/release.yml')) as {
    on: { push: { tags: string[] } }
    jobs: Record<string, Job>
  }
  const commands = Object.values(jobs).flatMap(({ steps }) => steps.flatMap(({ run }) => run ?? []))

  it('runs for tags of versions, after the tests', () => {
    assert.deepEqual(on.push.tags, ['v*.*.*'])
    for (const [name, { needs = [] }] of Object.entries(jobs)) {
      assert.ok(name === 'test' || needs.length > 0, name)
      for (const need of [needs].flat()) assert.ok(Object.hasOwn(jobs, need), need)
    }
  })

  it('calls scripts and files that exist', () => {
    const { scripts } = JSON.parse(read('package.json'))
    const called = commands.flatMap(command =>
      [...command.matchAll(/npm run ([\w:]+)/g)].map(([, name]) => name),
    )
    assert.deepEqual(called.sort(), ['release:artifacts', 'test:binary'])
    for (const name of called) assert.ok(Object.hasOwn(scripts, name ?? ''), String(name))
    assert.ok(commands.includes('./.ci/run') && existsSync(join(ROOT, '.ci/run')))
  })
})
