import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { describe, it } from 'node:test'
import { en } from '../console/src/texts/en.ts'
import { zhCN } from '../console/src/texts/zh-cn.ts'

type Branch = { readonly [key: string]: string | Branch }

const leaves = (branch: Branch, path: readonly string[] = []): [string, string][] =>
  Object.entries(branch).flatMap(([key, value]) =>
    typeof value === 'string' ? [[[...path, key].join('.'), value]] : leaves(value, [...path, key]),
  )
const placeholders = (text: string) => [...text.matchAll(/\{\{(\w+)\}\}/g)].map(([, name]) => name).sort()

const english = new Map(leaves(en))
const chinese = new Map(leaves(zhCN))
const source = globSync('console/src/**/*.{ts,tsx}')
  .filter(file => !file.includes('/texts/'))
  .map(file => readFileSync(file, 'utf8'))
  .join('\n')
/** Names of keys as they stand in the source; what a template fills in may be anything. */
const written = [...source.matchAll(/['"`]([a-z_]+\.[^'"`\s]+)['"`]/g)].map(([, key]) => key as string)
const whole = new Set(written)
const patterns = written
  .filter(key => key.includes('${'))
  .map(
    key =>
      new RegExp(
        `^${key
          .split(/\$\{[^}]*\}/)
          .map(part => RegExp.escape(part))
          .join('[\\w-]+')}$`,
      ),
  )
/** Told by what the gateway answers: its error codes, its settings, its kinds of rows. */
const FROM_THE_GATEWAY = /^(fault\.|settings\.(name|help|unit)\.|usage\.row\.)/

describe('the words of the console', () => {
  it('have the same keys in both languages', () => {
    assert.deepEqual([...chinese.keys()].sort(), [...english.keys()].sort())
  })

  it('fill in the same figures and names in both languages', () => {
    for (const [key, text] of english)
      assert.deepEqual(placeholders(chinese.get(key) ?? ''), placeholders(text), key)
  })

  it('are translated', () => {
    const ALIKE = /^[\W\d\s]*(\{\{\w+\}\}[\W\d\s]*)*$/
    const same = [...english].filter(([key, text]) => chinese.get(key) === text && !ALIKE.test(text))
    assert.deepEqual(same, [])
  })

  it('are all used', () => {
    const unused = [...english.keys()].filter(
      key => !whole.has(key) && !FROM_THE_GATEWAY.test(key) && !patterns.some(pattern => pattern.test(key)),
    )
    assert.deepEqual(unused, [])
  })
})
