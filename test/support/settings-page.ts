import { DEFAULT_MAX_LENGTH, SETTINGS, type Setting, type SettingTable } from '../../src/domain/setting.ts'

export const SETTINGS_PAGE = 'docs/operating/settings.md'

const row = (...cells: readonly string[]) => `| ${cells.join(' | ')} |`

const table = (header: readonly string[], rows: readonly (readonly string[])[]) =>
  [row(...header), row(...header.map(() => '---')), ...rows.map(cells => row(...cells))].join('\n')

function valuesOf(setting: Setting): string {
  if (setting.type === 'boolean') return '`true`, `false`'
  if (setting.type === 'text')
    return `text of at most ${(setting.maxLength ?? DEFAULT_MAX_LENGTH).toLocaleString('en')} characters`
  const [min, max] = setting.range
  const label = setting.type === 'integer' ? setting.unit.label : undefined
  const unit = label ? ` ${label.en}` : ''
  return `${min.toLocaleString('en')} to ${max.toLocaleString('en')}${unit}`
}

export const runtimeTable = (settings: SettingTable = SETTINGS) =>
  table(
    ['Key', 'In the console', 'Default', 'Values', 'Meaning'],
    Object.entries(settings).map(([key, setting]) => [
      `\`${key}\``,
      setting.label.en,
      setting.default === '' ? 'none' : `\`${setting.default}\``,
      valuesOf(setting),
      setting.help.en,
    ]),
  )

/** The page with the table under a heading replaced. */
function withTable(page: string, heading: string, newTable: string): string {
  const start = page.indexOf(`\n## ${heading}\n`)
  if (start < 0) throw new Error(`${SETTINGS_PAGE} has no heading ${heading}`)
  const body = page.slice(start).replace(/^(?:\|.*\n)+/m, () => `${newTable}\n`)
  return page.slice(0, start) + body
}

/** The settings page with tables that agree with the settings. */
export const settingsPage = (page: string): string =>
  withTable(page, 'Runtime settings: `/api/setting/`', runtimeTable())
