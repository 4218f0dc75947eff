import { type FieldFault, invalid } from '../../domain/errors.ts'
import {
  describeSetting,
  isSettingKey,
  parseSetting,
  SETTINGS,
  type SettingKey,
  type Settings,
  type SettingValue,
  settingMask,
} from '../../domain/setting.ts'
import type { Db, Trx } from '../../store/engine/store.ts'
import {
  clearSetting,
  listSettings,
  readSettings,
  secretSettingPlace,
  writeSecretSetting,
  writeSetting,
} from '../../store/records/settings.ts'
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
function parseChanges(body: Readonly<Record<string, unknown>>, current: Settings): readonly SettingChange[] {
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
    // Clients send a masked secret back as they received it: it is unchanged.
    if (settingMask(key) && value === current[key]) {
      changes.push({ key, value: current[key] })
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
export function createSettingHandlers({ db, now, keyring }: Deps): Handlers<typeof settingContract> {
  /** Stores a value. Of a secret, `settings` gets the masked value, and another table the encrypted one. */
  async function store(trx: Trx, key: SettingKey, value: SettingValue, authorId: number): Promise<void> {
    const mask = settingMask(key)
    const publicValue = mask ? mask(String(value)) : value
    if (mask) await writeSecretSetting(trx, key, keyring.seal(String(value), secretSettingPlace(key)))
    await writeSetting(trx, { key, value: JSON.stringify(publicValue), time: now(), authorId })
  }

  const update = async (
    { actor, change }: Pick<RouteCall<(typeof settingContract)['updateSettings']>, 'actor' | 'change'>,
    body: Readonly<Record<string, unknown>>,
  ) => {
    const current = await readSettings(db)
    const changes = parseChanges(body, current)
    return change(async ({ trx, audit }) => {
      const before = await readSettings(trx)
      for (const { key, value } of changes) {
        const isKept = settingMask(key) && value === current[key]
        if (value === undefined) await clearSetting(trx, key)
        else if (!isKept) await store(trx, key, value, actor.id)
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
