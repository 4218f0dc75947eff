import { type FieldFault, invalid } from '../../domain/errors.ts'
import { isSettingKey, readSetting, SETTINGS, type SettingKey, type Settings } from '../../domain/setting.ts'
import type { Db } from '../../store/engine/store.ts'
import { clearSetting, listSettings, readSettings, writeSetting } from '../../store/records/settings.ts'
import type { settingContract } from '../contract/settings.ts'
import type { Handlers, RouteCall } from './call.ts'
import type { Deps } from './deps.ts'

const KEYS = Object.keys(SETTINGS) as SettingKey[]

/** Settings that Root changes while the gateway runs (docs/reference/management-api.md: Runtime settings). */
export function createSettingHandlers({ db, now }: Deps): Handlers<typeof settingContract> {
  async function told(source: Db) {
    const stored = new Map((await listSettings(source)).map(row => [row.key, JSON.parse(row.value)]))
    return KEYS.map(key => ({
      key,
      value: stored.get(key) ?? SETTINGS[key].default,
      default: SETTINGS[key].default,
      source: stored.has(key) ? ('set' as const) : ('default' as const),
      unit: SETTINGS[key].unit,
      help: SETTINGS[key].help,
    }))
  }

  /** All or nothing: one wrong key or value, and none is written. */
  function readAll(given: Readonly<Record<string, unknown>>) {
    const faults: FieldFault[] = []
    const changes: { key: SettingKey; value: string | number | boolean | undefined }[] = []
    for (const [key, value] of Object.entries(given)) {
      if (!isSettingKey(key)) {
        faults.push({ path: key.slice(0, 100), message: 'is no setting' })
        continue
      }
      if (value === null || (typeof value === 'string' && value.trim() === '')) {
        changes.push({ key, value: undefined })
        continue
      }
      const read = readSetting(key, value)
      if ('fault' in read) faults.push({ path: key, message: read.fault })
      else changes.push({ key, value: read.value })
    }
    if (changes.length === 0 && faults.length === 0)
      faults.push({ path: 'body', message: 'names no setting' })
    if (faults.length > 0) throw invalid(faults)
    return changes
  }

  const update = (
    { actor, change }: Pick<RouteCall<(typeof settingContract)['updateSettings']>, 'actor' | 'change'>,
    given: Readonly<Record<string, unknown>>,
  ) => {
    const changes = readAll(given)
    return change(async ({ trx, audit }) => {
      const before = await readSettings(trx)
      for (const { key, value } of changes) {
        if (value === undefined) await clearSetting(trx, key)
        else await writeSetting(trx, { key, value: JSON.stringify(value), time: now(), authorId: actor.id })
      }
      const after = await readSettings(trx)
      const changed = changes.map(({ key }) => key)
      const pick = (settings: Settings) => Object.fromEntries(changed.map(key => [key, settings[key]]))
      audit({ action: 'setting.update', target: 'settings', before: pick(before), after: pick(after) })
      return told(trx)
    })
  }

  return {
    listSettings: () => told(db),
    updateSettings: call => update(call, call.body),
    listOptions: async () => (await told(db)).map(({ key, value }) => ({ key, value: String(value) })),
    updateOption: call => update(call, { [call.body.key]: call.body.value }),
  }
}
