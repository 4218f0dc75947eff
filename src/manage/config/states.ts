import { bodyModeOf } from '../../domain/body-log.ts'
import { HIDDEN, hideSecrets } from '../../domain/hidden-secret.ts'
import type { JsonObject } from '../../domain/json-object.ts'
import { parseLimits } from '../../domain/limits.ts'
import { type Price, priceFields } from '../../domain/price.ts'
import { ROLE } from '../../domain/role.ts'
import { isSettingKey, type SettingValue, settingMask } from '../../domain/setting.ts'
import { SealError } from '../../identity/keyring.ts'
import { chunksOf } from '../../store/engine/chunks.ts'
import { nonEmptyIds } from '../../store/engine/page.ts'
import type { AlertRuleRow, AlertTargetRow, AliasRow, ChannelRow } from '../../store/engine/schema.ts'
import type { Db } from '../../store/engine/store.ts'
import { optionsOfRule } from '../../store/records/alert-rules.ts'
import { optionsOfTarget } from '../../store/records/alert-targets.ts'
import { listSettings, secretSettingPlace } from '../../store/records/settings.ts'
import { createChannelRows } from '../channels/channel-rows.ts'
import type { Deps } from '../server/deps.ts'

/** The kinds of objects that a configuration consists of. */
export const CONFIG_KINDS = [
  'setting',
  'alert_target',
  'channel',
  'alias',
  'price',
  'user',
  'token',
  'alert_rule',
  'user_limits',
  'token_limits',
] as const
export type ConfigKind = (typeof CONFIG_KINDS)[number]

/** The configuration of one object. */
export type ConfigState = {
  readonly name: string
  /** As the API names them; secrets are hidden, and what only the gateway changes is left out. */
  readonly fields: JsonObject
  /** The secrets, or their digests, by field. They are compared, but never stored or shown. */
  readonly secrets: Readonly<Record<string, string>>
}
export type ConfigStates = Map<string, ConfigState>

/** Only these objects, by the part of their target after the colon; undefined: all. */
type Selection = readonly string[] | undefined

const CHUNK = 500
/** The status of a channel that the gateway has disabled. It is not configuration: the channel is meant to be enabled. */
const DISABLED_BY_GATEWAY = 3

const object = (text: string) => JSON.parse(text) as JsonObject

const channelFields = (row: ChannelRow): JsonObject => ({
  name: row.name,
  type: row.type,
  base_url: row.base_url,
  models: JSON.parse(row.models),
  model_mapping: object(row.model_mapping),
  priority: row.priority,
  weight: row.weight,
  status: row.status === DISABLED_BY_GATEWAY ? 1 : row.status,
  tag: row.tag,
  group: row.channel_group,
  auto_ban: row.auto_ban,
  test_model: row.test_model,
  param_override: object(row.param_override),
  header_override: hideSecrets(object(row.header_override)),
  status_code_mapping: object(row.status_code_mapping),
  setting: hideSecrets(object(row.setting)),
  openai_organization: row.openai_organization,
  other: row.other,
  remark: row.remark,
  limits: parseLimits(row.limits),
})

const aliasFields = (row: AliasRow): JsonObject => ({
  name: row.name,
  target: row.target,
  channel_ids: row.channel_ids === null ? null : JSON.parse(row.channel_ids),
  status: row.status,
})

const ruleFields = (row: AlertRuleRow): JsonObject => ({
  name: row.name,
  kind: row.kind,
  enabled: row.enabled === 1,
  ...optionsOfRule(row),
})

const targetFields = (row: AlertTargetRow): JsonObject => ({
  name: row.name,
  type: row.type,
  enabled: row.enabled === 1,
  ...optionsOfTarget(row),
})

type UpcomingPrice = { readonly effective_time: number }

/** Reads the configuration as it is stored. */
export function createConfigStates({ keyring, now }: Pick<Deps, 'keyring' | 'now'>) {
  const channelRows = createChannelRows({ keyring })

  /** Secrets that cannot be decrypted differ from every other secret. */
  function open(sealed: string, place: Parameters<typeof keyring.open>[1]): string {
    try {
      return keyring.open(sealed, place)
    } catch (error) {
      if (error instanceof SealError) return sealed
      throw error
    }
  }

  const numbers = (selection: readonly string[]) =>
    nonEmptyIds(selection.map(Number).filter(Number.isSafeInteger))

  async function channels(db: Db, selection: Selection): Promise<ConfigStates> {
    const ids = selection
      ? numbers(selection)
      : (await db.selectFrom('channels').select('id').orderBy('id').execute()).map(({ id }) => id)
    const states: ConfigStates = new Map()
    for (const chunk of chunksOf(ids, CHUNK)) {
      const keys = await db
        .selectFrom('channel_keys')
        .select(['channel_id', 'digest'])
        .where('channel_id', 'in', chunk)
        .orderBy('position')
        .execute()
      const digests = Map.groupBy(keys, key => key.channel_id)
      for (const row of await channelRows.find(db, chunk))
        states.set(`channel:${row.id}`, {
          name: row.name,
          fields: channelFields(row),
          secrets: {
            header_override: row.header_override,
            setting: row.setting,
            key: (digests.get(row.id) ?? []).map(({ digest }) => digest).join(' '),
          },
        })
    }
    return states
  }

  async function aliases(db: Db, selection: Selection): Promise<ConfigStates> {
    let query = db.selectFrom('aliases').selectAll().orderBy('id')
    if (selection) query = query.where('id', 'in', numbers(selection))
    return new Map(
      (await query.execute()).map(row => [
        `alias:${row.id}`,
        { name: row.name, fields: aliasFields(row), secrets: {} },
      ]),
    )
  }

  /** The price in force and those that are scheduled, of administrators only. */
  async function prices(db: Db, selection: Selection): Promise<ConfigStates> {
    let query = db
      .selectFrom('prices')
      .selectAll()
      .where('ended_time', 'is', null)
      .orderBy('model')
      .orderBy('effective_time')
      .orderBy('version')
    if (selection) query = query.where('model', 'in', selection)
    const states: ConfigStates = new Map()
    for (const [model, rows] of Map.groupBy(await query.execute(), row => row.model)) {
      const isDue = (row: (typeof rows)[number]) => row.activation !== null || row.effective_time <= now()
      const inForce = rows.filter(isDue).toSorted((a, b) => {
        // As in records/prices.ts: versions that are due but not yet activated come after the activated ones.
        if (a.activation === null || b.activation === null)
          return Number(a.activation === null) - Number(b.activation === null)
        return a.activation - b.activation
      })
      const fieldsOf = (row: (typeof rows)[number]) => priceFields(JSON.parse(row.price) as Price)
      const current = inForce.at(-1)
      const upcoming = rows
        .filter(row => !isDue(row))
        .map(row => ({ effective_time: row.effective_time, ...fieldsOf(row) }))
      states.set(`price:${model}`, {
        name: model,
        fields: { model, ...(current && fieldsOf(current)), ...(upcoming.length > 0 && { upcoming }) },
        secrets: {},
      })
    }
    return states
  }

  async function settings(db: Db, selection: Selection): Promise<ConfigStates> {
    const sealed = new Map(
      (await db.selectFrom('setting_secrets').selectAll().execute()).map(row => [row.key, row.sealed]),
    )
    const rows = (await listSettings(db)).filter(
      ({ key }) => isSettingKey(key) && (selection?.includes(key) ?? true),
    )
    return new Map(
      rows.map(({ key, value }) => {
        const secret = sealed.get(key)
        const isSecret = isSettingKey(key) && settingMask(key) !== undefined
        const publicValue = isSecret ? HIDDEN : (JSON.parse(value) as SettingValue)
        return [
          `setting:${key}`,
          {
            name: key,
            fields: { value: publicValue },
            secrets: secret === undefined ? {} : { value: open(secret, secretSettingPlace(key)) },
          },
        ]
      }),
    )
  }

  async function rules(db: Db, selection: Selection): Promise<ConfigStates> {
    let query = db.selectFrom('alert_rules').selectAll().orderBy('id')
    if (selection) query = query.where('id', 'in', numbers(selection))
    return new Map(
      (await query.execute()).map(row => [
        `alert_rule:${row.id}`,
        { name: row.name, fields: ruleFields(row), secrets: {} },
      ]),
    )
  }

  async function targets(db: Db, selection: Selection): Promise<ConfigStates> {
    let query = db.selectFrom('alert_targets').selectAll().orderBy('id')
    if (selection) query = query.where('id', 'in', numbers(selection))
    return new Map(
      (await query.execute()).map(row => [
        `alert_target:${row.id}`,
        {
          name: row.name,
          fields: targetFields(row),
          secrets: {
            url: open(row.sealed, { table: 'alert_targets', row: row.id, field: 'secrets' }),
          },
        },
      ]),
    )
  }

  const userRows = (db: Db, selection: Selection) => {
    const query = db
      .selectFrom('users')
      .innerJoin('accounts', join =>
        join.onRef('accounts.owner_id', '=', 'users.id').on('accounts.kind', '=', 'user'),
      )
      .select([
        'users.id',
        'users.username',
        'users.display_name',
        'users.email',
        'users.role',
        'users.status',
        'users.user_group',
        'users.limits',
        'users.log_bodies',
        'accounts.unlimited',
      ])
      .where('users.deleted_time', 'is', null)
      .orderBy('users.id')
    return (selection ? query.where('users.id', 'in', numbers(selection)) : query).execute()
  }

  /** Without those of Root, who manage themselves. */
  async function users(db: Db, selection: Selection): Promise<ConfigStates> {
    const rows = (await userRows(db, selection)).filter(({ role }) => role !== ROLE.root)
    return new Map(
      rows.map(row => [
        `user:${row.id}`,
        {
          name: row.username,
          fields: {
            username: row.username,
            display_name: row.display_name,
            email: row.email,
            role: row.role,
            status: row.status,
            group: row.user_group,
            unlimited_quota: row.unlimited === 1,
            limits: parseLimits(row.limits),
            log_bodies: bodyModeOf(row.log_bodies),
          },
          secrets: {},
        },
      ]),
    )
  }

  const tokenRows = (db: Db, selection: Selection) => {
    const query = db
      .selectFrom('tokens')
      .innerJoin('users', 'users.id', 'tokens.user_id')
      .innerJoin('accounts', join =>
        join.onRef('accounts.owner_id', '=', 'tokens.id').on('accounts.kind', '=', 'token'),
      )
      .selectAll('tokens')
      .select(['users.username', 'accounts.unlimited'])
      .orderBy('tokens.id')
    return (selection ? query.where('tokens.id', 'in', numbers(selection)) : query).execute()
  }

  async function tokens(db: Db, selection: Selection): Promise<ConfigStates> {
    return new Map(
      (await tokenRows(db, selection)).map(row => [
        `token:${row.id}`,
        {
          name: row.name,
          fields: {
            name: row.name,
            username: row.username,
            status: row.status,
            expired_time: row.expired_time,
            unlimited_quota: row.unlimited === 1,
            model_limits_enabled: row.model_limits_enabled === 1,
            models: JSON.parse(row.models),
            allow_ips: JSON.parse(row.allow_ips),
            group: row.token_group,
            limits: parseLimits(row.limits),
            log_bodies: bodyModeOf(row.log_bodies),
          },
          secrets: {},
        },
      ]),
    )
  }

  /** Only those that have a limit. */
  const limitStates = (
    kind: 'user_limits' | 'token_limits',
    rows: readonly { id: number; name: string; limits: string }[],
  ): ConfigStates =>
    new Map(
      rows.flatMap(({ id, name, limits }) => {
        const fields = parseLimits(limits)
        const isLimited = Object.values(fields).some(value => value !== null)
        return isLimited ? [[`${kind}:${id}`, { name, fields: { limits: fields }, secrets: {} }]] : []
      }),
    )

  const userLimits = async (db: Db, selection: Selection) =>
    limitStates(
      'user_limits',
      (await userRows(db, selection)).map(({ id, username, limits }) => ({ id, name: username, limits })),
    )
  async function tokenLimits(db: Db, selection: Selection): Promise<ConfigStates> {
    let query = db.selectFrom('tokens').select(['id', 'name', 'limits']).orderBy('id')
    if (selection) query = query.where('id', 'in', numbers(selection))
    return limitStates('token_limits', await query.execute())
  }

  const READS: Readonly<Record<ConfigKind, (db: Db, selection: Selection) => Promise<ConfigStates>>> = {
    setting: settings,
    alert_target: targets,
    channel: channels,
    alias: aliases,
    price: prices,
    user: users,
    token: tokens,
    alert_rule: rules,
    user_limits: userLimits,
    token_limits: tokenLimits,
  }

  return {
    /** Every object of a kind, by its target. */
    list: (db: Db, kind: ConfigKind): Promise<ConfigStates> => READS[kind](db, undefined),

    /** One object; undefined if it does not exist. */
    async read(db: Db, target: string): Promise<ConfigState | undefined> {
      const { kind, key } = splitTarget(target)
      return (await READS[kind](db, [key])).get(target)
    },
  }
}

export type ConfigReader = ReturnType<typeof createConfigStates>

/** The kind and the id or name of a target; a name may contain colons. */
export function splitTarget(target: string): { readonly kind: ConfigKind; readonly key: string } {
  const colon = target.indexOf(':')
  return { kind: target.slice(0, colon) as ConfigKind, key: target.slice(colon + 1) }
}

/** The scheduled versions in the state of a price. */
export const upcomingOf = (fields: JsonObject): readonly (JsonObject & UpcomingPrice)[] =>
  (fields.upcoming as (JsonObject & UpcomingPrice)[] | undefined) ?? []
