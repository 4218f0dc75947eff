import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { describe, it } from 'node:test'
import { en } from '../../console/src/texts/en.ts'
import {
  describeSetting,
  parseSetting,
  SETTINGS,
  type Setting,
  settingTexts,
} from '../../src/domain/setting.ts'
import { runtimeTable } from '../support/settings-page.ts'

/** An entry that no other file contains. */
const added: Setting = {
  type: 'integer',
  default: 12,
  range: [3, 1_200],
  unit: { name: 'h', label: { en: 'hours', 'zh-CN': '小时' } },
  label: { en: 'Sample interval', 'zh-CN': '采样间隔' },
  help: { en: 'How often a sample is taken.', 'zh-CN': '多久采样一次。' },
}

describe('one more entry in the table of settings', () => {
  it('is validated by its type and range', () => {
    assert.deepEqual(parseSetting(added, 3), { value: 3 })
    assert.deepEqual(parseSetting(added, '1200'), { value: 1_200 })
    for (const invalid of [2, 1_201, 3.5, 'often', true, null])
      assert.deepEqual(parseSetting(added, invalid), { fault: 'must be a whole number from 3 to 1200' })
  })

  it('may be a number with decimals', () => {
    const share: Setting = {
      type: 'number',
      default: 1,
      range: [0, 1],
      label: added.label,
      help: added.help,
    }
    assert.deepEqual(parseSetting(share, '0.25'), { value: 0.25 })
    assert.deepEqual(parseSetting(share, 0), { value: 0 })
    for (const invalid of [-0.1, 1.1, '1e-3', 'half', Number.NaN, true])
      assert.deepEqual(parseSetting(share, invalid), { fault: 'must be a number from 0 to 1' })
  })

  it('is listed by the API with its default, and with a stored value', () => {
    const listed = { key: 'sample_h', default: 12, unit: 'h', help: 'How often a sample is taken.' }
    assert.deepEqual(describeSetting('sample_h', added, undefined), {
      ...listed,
      value: 12,
      source: 'default',
    })
    assert.deepEqual(describeSetting('sample_h', added, 3), { ...listed, value: 3, source: 'set' })
  })

  it('has a label and help in the console, in both languages', () => {
    assert.deepEqual(settingTexts(added, 'en'), {
      label: 'Sample interval (hours)',
      help: 'How often a sample is taken.',
    })
    assert.deepEqual(settingTexts(added, 'zh-CN'), { label: '采样间隔 (小时)', help: '多久采样一次。' })
  })

  it('is a row of the documentation', () => {
    const rows = runtimeTable({ ...SETTINGS, sample_h: added }).split('\n')
    assert.equal(
      rows.at(-1),
      '| `sample_h` | Sample interval | `12` | 3 to 1,200 hours | How often a sample is taken. |',
    )
    assert.deepEqual(rows.slice(0, -1), runtimeTable().split('\n'))
  })

  it('needs no second file: the pages, handlers and contract of settings name no setting', () => {
    assert.ok(Object.values(en.settings).every(text => typeof text === 'string'))
    const files = globSync([
      'console/src/pages/settings/*.tsx',
      'src/manage/{server,contract}/settings.ts',
      'src/store/records/settings.ts',
    ])
    assert.equal(files.length, 4)
    for (const key of Object.keys(SETTINGS)) {
      assert.equal(Object.hasOwn(en.settings, key), false, key)
      for (const file of files)
        assert.equal(
          new RegExp(`\\b${key}\\b`).test(readFileSync(file, 'utf8')),
          false,
          `${file} names ${key}`,
        )
    }
  })
})
