import { type FieldFault, invalid } from '../../domain/errors.ts'
import {
  describeSetting,
  isSettingKey,
  parseSetting,
  SETTINGS,
  type SettingKey,
  type Settings,
  type SettingValue,
} from '../../domain/setting.ts'
import type { Db } from '../../store/engine/store.ts'
import { clearSetting, listSettings, readSettings, writeSetting } from '../../store/records/settings.ts'
import type { settingContract } from '../contract/settings.ts'
import type { Handlers, RouteCall } from './call.ts'
import type { Deps } from './deps.ts'

/** A value of undefined restores the default. */
type SettingChange = { readonly key: SettingKey; readonly value: SettingValue | undefined }

async function presentSettings(source: Db) {
  const stored = new Map(
    (await listSettings(source)).map(row => [row.key, JSON.parse(row.value) as SettingValue]),
  )
  return Object.entries(SETTINGS).map(([key, setting]) => describeSetting(key, setting, stored.get(key)))
}

/** All or nothing: one invalid key or value rejects the whole request. */
function parseChanges(body: Readonly<Record<string, unknown>>): readonly SettingChange[] {
  const faults: FieldFault[] = []
  const changes: SettingChange[] = []
  for (const [key, value] of Object.entries(body)) {
    if (!isSettingKey(key)) {
      faults.push({ path: key.slice(0, 100), message: 'is not a setting' })
      continue
    }
    if (value === null || (typeof value === 'string' && value.trim() === '')) {
      changes.push({ key, value: undefined })
      continue
    }
    const parsed = parseSetting(SETTINGS[key], value)
    if ('fault' in parsed) faults.push({ path: key, message: parsed.fault })
    else changes.push({ key, value: parsed.value })
  }
  if (changes.length === 0 && faults.length === 0)
    faults.push({ path: 'body', message: 'must contain at least one setting' })
  if (faults.length > 0) throw invalid(faults)
  return changes
}

/** Settings that Root changes while the gateway runs (docs/reference/management-api.md: Runtime settings). */
export function createSettingHandlers({ db, now }: Deps): Handlers<typeof settingContract> {
  const update = (
    { actor, change }: Pick<RouteCall<(typeof settingContract)['updateSettings']>, 'actor' | 'change'>,
    body: Readonly<Record<string, unknown>>,
  ) => {
    const changes = parseChanges(body)
    return change(async ({ trx, audit }) => {
      const before = await readSettings(trx)
      for (const { key, value } of changes) {
        if (value === undefined) await clearSetting(trx, key)
        else await writeSetting(trx, { key, value: JSON.stringify(value), time: now(), authorId: actor.id })
      }
      const after = await readSettings(trx)
      const pick = (settings: Settings) => Object.fromEntries(changes.map(({ key }) => [key, settings[key]]))
      audit({ action: 'setting.update', target: 'settings', before: pick(before), after: pick(after) })
      return presentSettings(trx)
    })
  }

  return {
    listSettings: () => presentSettings(db),
    updateSettings: call => update(call, call.body),
    listOptions: async () =>
      (await presentSettings(db)).map(({ key, value }) => ({ key, value: String(value) })),
    updateOption: call => update(call, { [call.body.key]: call.body.value }),
  }
}
