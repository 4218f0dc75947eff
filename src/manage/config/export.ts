import { isDeepStrictEqual } from 'node:util'
import { type AlertKind, alertKind, defaultRuleOptions } from '../../domain/alert.ts'
import type { ExportResult } from '../../domain/config-change.ts'
import type { JsonObject } from '../../domain/json-object.ts'
import { fold } from '../../domain/text.ts'
import { NEVER } from '../../domain/token.ts'
import type { Db } from '../../store/engine/store.ts'
import type { ConfigDeps } from './handlers.ts'
import { type ConfigKind, type ConfigStates, createConfigStates, splitTarget, upcomingOf } from './states.ts'

const NO_LIMITS = { rpm: null, tpm: null, concurrency: null }

/** The values that a new object has without them; an exported file leaves them out. */
const DEFAULTS: Partial<Record<ConfigKind, (fields: JsonObject) => JsonObject>> = {
  channel: () => ({
    base_url: '',
    model_mapping: {},
    priority: 0,
    weight: 0,
    status: 1,
    tag: null,
    group: 'default',
    auto_ban: 1,
    test_model: '',
    param_override: {},
    header_override: {},
    status_code_mapping: {},
    setting: {},
    openai_organization: '',
    other: '',
    remark: '',
    limits: NO_LIMITS,
  }),
  alias: () => ({ channel_ids: null, status: 1 }),
  user: ({ username }) => ({
    display_name: username,
    email: '',
    role: 1,
    status: 1,
    group: 'default',
    unlimited_quota: false,
    limits: NO_LIMITS,
    log_bodies: 'none',
  }),
  token: () => ({
    status: 1,
    expired_time: NEVER,
    unlimited_quota: false,
    model_limits_enabled: false,
    models: [],
    allow_ips: [],
    group: 'default',
    limits: NO_LIMITS,
    log_bodies: 'none',
  }),
  alert_rule: ({ kind }) => ({ enabled: true, ...defaultRuleOptions(kind as AlertKind) }),
  alert_target: () => ({ enabled: true, chat_id: '', to: [] }),
}

function withoutDefaults(kind: ConfigKind, fields: JsonObject): Record<string, unknown> {
  const defaults = DEFAULTS[kind]?.(fields) ?? {}
  return Object.fromEntries(
    Object.entries(fields).filter(([name, value]) => !isDeepStrictEqual(defaults[name], value)),
  )
}

/** The names of objects by their ids; undefined if one has no unique name. */
function createNames(states: ConfigStates) {
  const counts = Map.groupBy(states.values(), ({ name }) => name)
  const names = new Map([...states].map(([target, { name }]) => [Number(splitTarget(target).key), name]))
  return (ids: unknown): string[] | undefined => {
    if (!Array.isArray(ids)) return undefined
    const list = ids.map(id => names.get(id))
    const areUnique = list.every(name => name !== undefined && counts.get(name)?.length === 1)
    return areUnique ? (list as string[]) : undefined
  }
}

/** Replaces ids by names if every one has a unique name. */
function withNames(
  fields: Record<string, unknown>,
  [idsField, namesField]: readonly [string, string],
  namesOf: (ids: unknown) => string[] | undefined,
): Record<string, unknown> {
  const names = namesOf(fields[idsField])
  if (!names) return fields
  const { [idsField]: _ids, ...rest } = fields
  return { ...rest, [namesField]: names }
}

/** Names that several objects have: `sluice apply` matches objects by their names. */
function repeatedNames(section: string, names: readonly string[]): string[] {
  return [...Map.groupBy(names, name => name)]
    .filter(([, same]) => same.length > 1)
    .map(
      ([name, same]) =>
        `${section}: "${name}" is the name of ${same.length} objects. Rename them to apply the file.`,
    )
}

/** The configuration as a file of `sluice apply`, without secrets and defaults. */
export function createConfigExport(deps: Pick<ConfigDeps, 'keyring' | 'now' | 'db'>) {
  const states = createConfigStates(deps)

  return async function exportConfig(): Promise<ExportResult> {
    const list = async (db: Db, kind: ConfigKind) => states.list(db, kind)
    const [settings, targets, channels, aliases, prices, users, tokens, rules] = await Promise.all(
      (['setting', 'alert_target', 'channel', 'alias', 'price', 'user', 'token', 'alert_rule'] as const).map(
        kind => list(deps.db, kind),
      ),
    )
    const itemsOf = (kind: ConfigKind, of: ConfigStates = new Map()) =>
      [...of.values()].map(({ fields }) => withoutDefaults(kind, fields))
    const namesOf = (of: ConfigStates = new Map()) => createNames(of)
    const [channelNames, targetNames, userNames] = [namesOf(channels), namesOf(targets), namesOf(users)]

    const ruleItems = itemsOf('alert_rule', rules).map(rule => {
      const isOfUsers = alertKind(rule.kind as AlertKind).subjects === 'user'
      const withTargets = withNames(rule, ['target_ids', 'targets'], targetNames)
      return withNames(withTargets, ['subject_ids', 'subjects'], isOfUsers ? userNames : channelNames)
    })
    const priceItems = itemsOf('price', prices)
    const sections = {
      settings: Object.fromEntries([...(settings ?? [])].map(([, { name, fields }]) => [name, fields.value])),
      channels: itemsOf('channel', channels),
      aliases: itemsOf('alias', aliases).map(alias =>
        withNames(alias, ['channel_ids', 'channels'], channelNames),
      ),
      prices: priceItems
        .map(({ upcoming: _upcoming, ...price }) => price)
        .filter(price => Object.keys(price).length > 1),
      users: itemsOf('user', users),
      tokens: itemsOf('token', tokens),
      alerts: [...itemsOf('alert_target', targets), ...ruleItems],
    }
    const textOf = (value: unknown) => (typeof value === 'string' ? value : '')
    const warnings = [
      ...repeatedNames(
        'channels',
        sections.channels.map(({ name }) => textOf(name)),
      ),
      ...repeatedNames(
        'tokens',
        sections.tokens.map(({ username, name }) => `${fold(textOf(username))}/${textOf(name)}`),
      ),
      ...priceItems
        .filter(fields => upcomingOf(fields).length > 0)
        .map(({ model }) => `prices: scheduled prices of "${textOf(model)}" are left out.`),
    ]
    const isFilled = ([, value]: [string, unknown]) => Object.keys(value as object).length > 0
    return {
      document: { version: 1, ...Object.fromEntries(Object.entries(sections).filter(isFilled)) },
      warnings,
    }
  }
}
