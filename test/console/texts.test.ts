import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { describe, it } from 'node:test'
import { en } from '../../console/src/texts/en.ts'
import { gatewayZhCN } from '../../console/src/texts/gateway-zh-cn.ts'
import { translate } from '../../console/src/texts/translate.ts'
import { zhCN } from '../../console/src/texts/zh-cn.ts'
import { userContract } from '../../src/manage/contract/users.ts'
import { providers, typeEntry } from '../../src/providers/index.ts'

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
/** Keys in the source; a placeholder of a template matches any text. */
const sourceKeys = [...source.matchAll(/['"`]([a-z_]+\.[^'"`\s]+)['"`]/g)].map(([, key]) => key as string)
const whole = new Set(sourceKeys)
const patterns = sourceKeys
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
/** Keys that depend on values from the gateway: error codes, audit records, row types. */
const FROM_THE_GATEWAY = /^(fault\.|audit\.(actions|sources)\.|usage\.row\.)/

/** Names of API parameters, the same in every language. */
const PARAMETER_NAMES = new Set(['Top P'])

/** Messages that the gateway joins from several texts. */
const COMPOSED: Readonly<Record<string, readonly string[]>> = {
  'the type changes': ["'the type'", '`{} changes`'],
  'the origin of base_url changes': ["'the origin of base_url'", '`{} changes`'],
  'the proxy changes': ["'the proxy'", '`{} changes`'],
  'the trusted certificate changes': ["'the trusted certificate'", '`{} changes`'],
  'the Host header changes': ["'the Host header'", '`{} changes`'],
  '{}: {} records, unbroken; the first {} are from before the upgrade and were checked without a key': [
    '`{}: {} records, unbroken`',
    '`{}; the first {} are from before the upgrade and were checked without a key`',
  ],
  'rows: {} users, tokens, channels, aliases, prices and settings match the audit log': [
    "'users, tokens, channels, aliases, prices and settings'",
    '`rows: {} {} match the audit log`',
  ],
  'journal of {}: {} records in {} files, intact': [
    '`journal of {}: {}`',
    '`{} records in {} files, intact`',
  ],
  'journal of {}: BROKEN: {}': ['`journal of {}: {}`', '`BROKEN: {}`'],
  'Attempt {}: channel {} was still working when the client disconnected after {}.': [
    '`Attempt {}: channel {}`',
    'was still working when the client disconnected {}.',
  ],
  'Attempt {}: channel {} was not sent, because the client disconnected.': [
    '`Attempt {}: channel {}`',
    'was not sent, because the client disconnected.',
  ],
  'Attempt {}: channel {} refused the connection after {}.': [
    '`Attempt {}: channel {}`',
    'refused the connection {}.',
  ],
  'Attempt {}: channel {} gave no valid answer after {}: {}.': [
    '`Attempt {}: channel {}`',
    'gave no valid answer {}: {}.',
  ],
  'Attempt {}: channel {} answered {} after {}.': [
    '`Attempt {}: channel {}`',
    'answered {} {}.',
    '`after {}`',
  ],
  'Attempt {}: channel {} answered {} after {}. "{}"': [
    '`Attempt {}: channel {}`',
    'answered {} {}.',
    '`after {}`',
  ],
  ...Object.fromEntries(
    [
      'was cooling down. {}',
      'was cooling down after a failure.',
      'had failed before, and another request was its trial request.',
      'had reached a rate limit of its own.',
      'had no enabled key.',
      'was disabled.',
      'does not offer what the request needs.',
      'has no price for the model.',
      'was skipped: {}.',
      'is disabled now.',
      'is auto-disabled now.',
      'is auto-disabled now: {}',
      'is enabled now and not cooling down.',
      'is cooling down until {}. Then it waits for a trial request.',
    ].map(rest => [`Channel {} ${rest}`, ['`Channel {}`', rest]]),
  ),
  ...Object.fromEntries(
    [
      'may use the model now.',
      'may use only these models: {}.',
      'may be used from any address now.',
      'may be used only from these addresses: {}.',
      'is disabled now.',
      'expired at {}.',
      'is valid now.',
      'has {} left now.',
      'has no limit of its own.',
    ].map(rest => [`Token {} ${rest}`, ['`Token {}`', rest]]),
  ),
  'User {} has {} left now.': ['`User {}`', 'has {} left now.'],
  'User {} has no limit of its own.': ['`User {}`', 'has no limit of its own.'],
  'The token has reached its {} limit. Try again in {} s.': ['`The {} has reached its {} limit. Try again'],
  'The user has reached its {} limit. Try again in {} s.': ['`The {} has reached its {} limit. Try again'],
  '{} of {} requests failed or were rejected in the last 24 hours, {} of them with {}.': [
    '`{} of {} requests failed or were rejected in the last 24 hours, {} of them with {}{}.`',
  ],
  '{} of {} requests failed or were rejected in the last 24 hours, {} of them with {} (token {}).': [
    '`{} of {} requests failed or were rejected in the last 24 hours, {} of them with {}{}.`',
    '` (token {})`',
  ],
  ...Object.fromEntries(
    ['token', 'user', 'channel', 'price', 'alias', 'video job', 'unresolved charge'].map(resource => [
      `No such ${resource}.`,
      ['`No such {}.`', `notFound('${resource}')`],
    ]),
  ),
  'must be at least {}': ['`must be at {} {}`', "word: 'least' | 'most'"],
  'must be at most {}': ['`must be at {} {}`', "word: 'least' | 'most'"],
  'must have at most {} entries': ['`must have at {} {} {}`', "'entries'"],
  'The owner of the token can {}.': ["'The owner of the token'", 'can {}.'],
  'An administrator can {}.': ["'An administrator'", 'can {}.'],
}

const HAN = /\p{Script=Han}/u
/** True for prose, false for the format of a key or a URL. */
const isSentence = (text: string) => /[a-z]{2,} [a-z]{2,}/i.test(text)

describe('gateway messages in 简体中文', () => {
  it('are translated in the channel form of every provider', () => {
    const messages = providers
      .map(typeEntry)
      .flatMap(({ key_hint, fields }) => [key_hint, ...fields.map(({ help }) => help)])
      .filter(text => text !== undefined && isSentence(text))
    const untranslated = messages.filter(
      text => !HAN.test(translate(gatewayZhCN, text)) || text === translate(gatewayZhCN, text),
    )
    assert.deepEqual([...new Set(untranslated)], [])
  })

  it('keep values in their order, and a nested reason is translated too', () => {
    const zh = (text: string) => translate(gatewayZhCN, text)
    assert.equal(zh('store: 12 records, unbroken'), 'store：12 条记录，链条完整')
    assert.equal(
      zh('node-1: BROKEN after 3 records: record 4 was changed'),
      'node-1：在第 3 条记录之后断裂：第 4 条记录被改动',
    )
    assert.equal(zh('Key 2: The provider returned status 401.'), '密钥 2：供应商返回状态码 401')
    assert.equal(zh('something new'), 'something new')
  })

  it('are never split inside a sentence that has no translation', () => {
    const UNKNOWN = 'The frobnicator or its owner did not, after 3 s: run the model "x" with 4 keys.'
    assert.equal(translate(gatewayZhCN, UNKNOWN), UNKNOWN)
    const bare = Object.keys(gatewayZhCN).filter(
      key => key.startsWith('{}') && key.endsWith('{}') && (key.match(/[a-z]{2,}/gi) ?? []).length < 2,
    )
    assert.deepEqual(bare, [], 'a pattern that matches nearly any text')
  })

  it('are keyed by messages that occur in the source of the gateway', () => {
    const code = globSync('src/**/*.ts')
      .map(file => readFileSync(file, 'utf8').replaceAll(/^\s*(\*|\/\/|\/\*).*$/gm, ''))
      .join('\n')
    const occurs = (text: string) => {
      const pattern = new RegExp(
        text
          .replaceAll(/^\{\}|\{\}$/g, '')
          .split('{}')
          .map(part => RegExp.escape(part))
          .join('.*'),
      )
      return pattern.test(code)
    }
    const unknown = Object.keys(gatewayZhCN).filter(key => !(COMPOSED[key] ?? [key]).every(occurs))
    assert.deepEqual(unknown, [])
    assert.deepEqual(
      Object.keys(COMPOSED).filter(key => gatewayZhCN[key] === undefined),
      [],
    )
  })

  it('have as many values as their English text', () => {
    for (const [english, ours] of Object.entries(gatewayZhCN))
      assert.equal(ours.split('{}').length, english.split('{}').length, english)
  })
})

describe('the texts of the console', () => {
  it('have the same keys in both languages', () => {
    assert.deepEqual([...chinese.keys()].sort(), [...english.keys()].sort())
  })

  it('have the same values in both languages', () => {
    for (const [key, text] of english)
      assert.deepEqual(placeholders(chinese.get(key) ?? ''), placeholders(text), key)
  })

  it('are translated', () => {
    const ALIKE = /^[\W\d\s]*(\{\{\w+\}\}[\W\d\s]*)*$/
    const same = [...english].filter(
      ([key, text]) => chinese.get(key) === text && !ALIKE.test(text) && !PARAMETER_NAMES.has(text),
    )
    assert.deepEqual(same, [])
  })

  it('have a text for every audited action', () => {
    const deeds = globSync('src/**/*.ts').flatMap(file =>
      [...readFileSync(file, 'utf8').matchAll(/\baction: (?:.*)'([a-z_]+)\.([a-z_]+)'/g)].map(
        ([, what, how]) => `audit.actions.${what}_${how}`,
      ),
    )
    assert.ok(deeds.length > 10)
    const managed = userContract.manageUser.body.shape.action.options.map(
      name => `audit.actions.user_${name}`,
    )
    assert.deepEqual(
      [...deeds, ...managed].filter(key => !english.has(key)),
      [],
    )
  })

  it('are all used', () => {
    // The source names a text without its plural form.
    const keys = new Set(
      [...english.keys()].map(key => {
        const [, base] = /^(.+)_(?:one|other)$/.exec(key) ?? []
        return base !== undefined && english.has(`${base}_other`) ? base : key
      }),
    )
    const unused = [...keys].filter(
      key => !whole.has(key) && !FROM_THE_GATEWAY.test(key) && !patterns.some(pattern => pattern.test(key)),
    )
    assert.deepEqual(unused, [])
  })
})
