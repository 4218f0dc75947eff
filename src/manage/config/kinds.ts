import { isDeepStrictEqual } from 'node:util'
import { type AlertKind, alertKind } from '../../domain/alert.ts'
import { chainLength } from '../../domain/alias.ts'
import { readKeys } from '../../domain/channel-key.ts'
import type { NewSecret } from '../../domain/config-change.ts'
import { invalid, invalidField, Refusal } from '../../domain/errors.ts'
import { HIDDEN, maskHidden } from '../../domain/hidden-secret.ts'
import { isObject, type JsonObject } from '../../domain/json-object.ts'
import { type PriceInput, priceFields, readPrice } from '../../domain/price.ts'
import { isSettingKey, parseSetting, SETTINGS } from '../../domain/setting.ts'
import { fold } from '../../domain/text.ts'
import type { Trx } from '../../store/engine/store.ts'
import { aliasTargets } from '../../store/records/aliases.ts'
import { listSealedKeys } from '../../store/records/channel-keys.ts'
import { findPriceInForce } from '../../store/records/prices.ts'
import { findUserByName } from '../../store/records/users.ts'
import { type ConfigCall, type ConfigDeps, OPERATOR } from './handlers.ts'
import { type ConfigKind, type ConfigState, splitTarget, upcomingOf } from './states.ts'

/** An object that exists, found by the name of an item. */
export type Existing = { readonly target: string; readonly state: ConfigState }

export type FileKinds = readonly FileKind[]
/** How the items of one kind are applied, with the handlers of the API. */
export type FileKind = {
  readonly kind: Exclude<ConfigKind, 'user_limits' | 'token_limits'>
  /** The name that an item is matched by, unique within its kind. */
  keyOf(fields: JsonObject): string
  /** The rank by which these items are applied, the lowest first; absent: in the order of the file. */
  ranks?(items: readonly JsonObject[]): Promise<(item: JsonObject) => number>
  /** The item with ids instead of names. */
  resolve?(item: JsonObject): Promise<JsonObject>
  /** Returns the target of the new object. */
  create(item: JsonObject): Promise<string>
  update(existing: Existing, item: JsonObject): Promise<void>
  remove(existing: Existing): Promise<unknown>
}

type KindDeps = {
  readonly deps: Pick<ConfigDeps, 'digest' | 'now'>
  readonly trx: Trx
  readonly call: ConfigCall
  readonly secrets: NewSecret[]
  /** The targets whose leases were returned before the transaction. */
  readonly returned: ReadonlySet<string>
}

/** Users whose items name no owner have their tokens with root. */
export const DEFAULT_OWNER = 'root'

const idOf = (target: string) => Number(splitTarget(target).key)
const without = (item: JsonObject, ...names: string[]): JsonObject =>
  Object.fromEntries(Object.entries(item).filter(([name]) => !names.includes(name)))
const textOf = (value: unknown) => (typeof value === 'string' ? value : '')

/** Replaces the hidden secrets of an exported file by the stored ones. */
function withStoredSecrets(item: JsonObject, stored: Readonly<Record<string, string>>): JsonObject {
  const result: Record<string, unknown> = { ...item }
  for (const name of ['header_override', 'setting']) {
    const value = item[name]
    if (!isObject(value)) continue
    const { object, missing } = maskHidden(value, JSON.parse(stored[name] ?? '{}'), name)
    if (missing.length > 0)
      throw invalid(
        missing.map(path => ({ path, message: 'is left out; write env:NAME or file:PATH instead' })),
      )
    result[name] = object
  }
  return result
}

function createChannelKind({ deps, trx, call }: KindDeps): FileKind {
  const keysIn = (item: JsonObject): readonly string[] | undefined =>
    Array.isArray(item.keys) ? item.keys.map(key => textOf(key).trim()) : undefined

  function refuseBoth(item: JsonObject): void {
    if (item.key != null && item.keys != null)
      throw invalidField('keys', 'cannot be combined with key: a channel has one key or several')
  }

  /** The keys that `key` stands for: only a channel with several keys splits it. */
  function digestsOf(text: string, isMulti: boolean): readonly string[] {
    const read = isMulti ? readKeys(text) : { keys: [text] }
    return 'keys' in read ? read.keys.map(deps.digest) : []
  }

  /** Adds the keys that are missing and deletes the others. The state of the remaining keys is unchanged. */
  async function replaceKeys(id: number, keys: readonly string[], fields: JsonObject): Promise<void> {
    const existing = await listSealedKeys(trx, id)
    const stored = new Set(existing.map(({ digest }) => digest))
    const added = keys.filter(key => !stored.has(deps.digest(key)))
    const appended = added.length === 0 ? {} : { key: JSON.stringify(added), key_mode: 'append' }
    await call('updateChannel', { body: { id, ...fields, ...appended } })
    const desired = new Set(keys.map(deps.digest))
    const surplus = existing.filter(({ digest }) => !desired.has(digest)).map(({ position }) => position)
    // The last one first, because later keys move up.
    for (const index of surplus.toSorted((a, b) => b - a))
      await call('deleteChannelKey', { params: { id, index } })
  }

  return {
    kind: 'channel',
    keyOf: ({ name }) => textOf(name).trim(),
    async create(item) {
      refuseBoth(item)
      const keys = keysIn(item)
      const fields = withStoredSecrets(without(item, 'keys'), {})
      const body = keys ? { mode: 'multi_to_single', ...fields, key: JSON.stringify(keys) } : fields
      const { id } = await call('createChannel', { body })
      return `channel:${id}`
    },
    async update({ target, state }, item) {
      refuseBoth(item)
      const id = idOf(target)
      const keys = keysIn(item)
      const fields = withStoredSecrets(without(item, 'key', 'keys'), state.secrets)
      if (keys) return replaceKeys(id, keys, fields)
      const text = textOf(item.key).trim()
      const existing = await listSealedKeys(trx, id)
      const row = await trx
        .selectFrom('channels')
        .select('is_multi')
        .where('id', '=', id)
        .executeTakeFirstOrThrow()
      const isSame = isDeepStrictEqual(
        digestsOf(text, row.is_multi === 1),
        existing.map(({ digest }) => digest),
      )
      await call('updateChannel', { body: { id, ...fields, ...(!isSame && { key: text }) } })
    },
    remove: ({ target }) => call('deleteChannel', { params: { id: idOf(target) } }),
  }
}

/** Looks up objects by their names. A name that several objects have is refused. */
function idsByName(rows: readonly { readonly id: number; readonly name: string }[], what: string) {
  const byName = Map.groupBy(rows, row => row.name)
  return (names: readonly unknown[], path: string): number[] =>
    names.map((name, index) => {
      const [first, second] = byName.get(textOf(name)) ?? []
      if (!first) throw invalidField(`${path}.${index}`, `is not the name of ${what}`)
      if (second) throw invalidField(`${path}.${index}`, `is the name of several: rename one`)
      return first.id
    })
}

/** Channels of this transaction, created ones included. */
const channelIds = async (trx: Trx) =>
  idsByName(await trx.selectFrom('channels').select(['id', 'name']).execute(), 'a channel')
const targetIds = async (trx: Trx) =>
  idsByName(await trx.selectFrom('alert_targets').select(['id', 'name']).execute(), 'an alert target')
const userIds = async (trx: Trx) =>
  idsByName(
    await trx
      .selectFrom('users')
      .select(['id', 'username as name'])
      .where('deleted_time', 'is', null)
      .execute(),
    'a user',
  )

const createAliasKind = ({ trx, call }: KindDeps): FileKind => ({
  kind: 'alias',
  keyOf: ({ name }) => textOf(name).trim(),
  // From the end of each chain of the result: a former target must not seem to form a loop with a new one.
  async ranks(items) {
    const targets = new Map(await aliasTargets(trx))
    for (const { name, target } of items)
      if (target != null) targets.set(textOf(name).trim(), textOf(target).trim())
    return ({ name }) => chainLength(targets, textOf(name).trim()) ?? targets.size + 1
  },
  async resolve(item) {
    if (!Array.isArray(item.channels)) return without(item, 'channels')
    if (item.channel_ids != null) throw invalidField('channels', 'cannot be combined with channel_ids')
    const ids = (await channelIds(trx))(item.channels, 'channels')
    return { ...without(item, 'channels'), channel_ids: ids }
  },
  create: async item => `alias:${(await call('createAlias', { body: item })).id}`,
  async update({ target }, item) {
    await call('updateAlias', { body: { id: idOf(target), ...item } })
  },
  remove: ({ target }) => call('deleteAlias', { params: { id: idOf(target) } }),
})

function createPriceKind({ deps, trx, call }: KindDeps): FileKind {
  /** A time that has come is the same as none. */
  const scheduleOf = (item: JsonObject): number | undefined =>
    typeof item.effective_time === 'number' && item.effective_time > deps.now()
      ? item.effective_time
      : undefined
  const write = (item: JsonObject) =>
    call('createPrice', { body: { ...item, effective_time: scheduleOf(item) } })
  return {
    kind: 'price',
    keyOf: ({ model }) => textOf(model).trim(),
    async create(item) {
      await write(item)
      return `price:${textOf(item.model).trim()}`
    },
    async update({ state }, item) {
      const reading = readPrice(item as PriceInput)
      // The handler reports what is wrong with it.
      if ('faults' in reading) return void (await write(item))
      const desired = priceFields(reading.price)
      const effective_time = scheduleOf(item)
      const { model: _model, upcoming: _upcoming, ...current } = state.fields
      const isSame =
        effective_time === undefined
          ? isDeepStrictEqual(desired, current)
          : upcomingOf(state.fields).some(price => isDeepStrictEqual({ effective_time, ...desired }, price))
      if (!isSame) await write(item)
    },
    async remove({ state }) {
      const row =
        (await findPriceInForce(trx, state.name, deps.now())) ??
        (await trx
          .selectFrom('prices')
          .select('id')
          .where('model', '=', state.name)
          .where('ended_time', 'is', null)
          .executeTakeFirst())
      if (row) await call('deletePrice', { params: { id: row.id } })
    },
  }
}

function createSettingKind({ call }: KindDeps): FileKind {
  const write = async (key: string, value: unknown) => {
    try {
      await call('updateSettings', { body: { [key]: value } })
    } catch (error) {
      const [fault] = error instanceof Refusal ? (error.errors ?? []) : []
      throw fault ? invalidField('value', fault.message) : error
    }
  }
  return {
    kind: 'setting',
    keyOf: ({ key }) => textOf(key),
    async create({ key, value }) {
      if (value === HIDDEN) throw invalidField('value', 'is left out; write env:NAME or file:PATH instead')
      if (value !== null) await write(textOf(key), value)
      return `setting:${textOf(key)}`
    },
    async update({ state }, { key, value }) {
      if (value === HIDDEN || !isSettingKey(textOf(key))) return
      const parsed = parseSetting(SETTINGS[textOf(key) as keyof typeof SETTINGS], value)
      const current = state.secrets.value ?? state.fields.value
      if ('value' in parsed && parsed.value === current) return
      await write(textOf(key), value)
    },
    remove: ({ state }) => write(state.name, null),
  }
}

/** The quota of an account is money: a file sets it only when the account is created. */
const ONLY_NEW = ['password', 'quota', 'remain_quota']

function mayChangeUnlimited(
  { returned }: KindDeps,
  { target, state }: Existing,
  item: JsonObject,
): JsonObject {
  if (item.unlimited_quota == null || item.unlimited_quota === state.fields.unlimited_quota)
    return without(item, 'unlimited_quota')
  if (returned.has(target)) return item
  throw new Refusal('conflict', 'The account was changed meanwhile. Run the command again.')
}

function createUserKind(kindDeps: KindDeps): FileKind {
  const { call } = kindDeps
  const UPDATED_ONLY = ['status', 'log_bodies']
  return {
    kind: 'user',
    keyOf: ({ username }) => fold(textOf(username).trim()),
    async create(item) {
      if (textOf(item.password) === '')
        throw invalidField('password', 'is required for a new user: env:NAME or file:PATH')
      const { id } = await call('createUser', { body: without(item, ...UPDATED_ONLY) })
      const more = UPDATED_ONLY.filter(name => item[name] != null)
      if (more.length > 0)
        await call('updateUser', {
          body: { id, ...Object.fromEntries(more.map(name => [name, item[name]])) },
        })
      return `user:${id}`
    },
    async update(existing, item) {
      const fields = mayChangeUnlimited(kindDeps, existing, without(item, ...ONLY_NEW))
      await call('updateUser', { body: { id: idOf(existing.target), ...fields } })
    },
    remove: ({ target }) => call('deleteUser', { params: { id: idOf(target) } }),
  }
}

function createTokenKind(kindDeps: KindDeps): FileKind {
  const { trx, call, secrets } = kindDeps
  async function ownerOf({ username }: JsonObject) {
    const owner = await findUserByName(trx, textOf(username) || DEFAULT_OWNER)
    if (!owner) throw invalidField('username', 'is not the name of a user')
    return { ...OPERATOR, id: owner.id }
  }
  return {
    kind: 'token',
    keyOf: ({ username, name }) => `${fold(textOf(username).trim() || DEFAULT_OWNER)}/${textOf(name).trim()}`,
    async create(item) {
      const actor = await ownerOf(item)
      const fields = without(item, 'username', 'status')
      const { id, key } = await call<{ id: number; key: string }>('createToken', { body: fields, actor })
      if (item.status != null) await call('updateToken', { body: { id, status: item.status }, actor })
      const username = textOf(item.username).trim() || DEFAULT_OWNER
      secrets.push({ kind: 'token', name: textOf(item.name).trim(), username, value: key })
      return `token:${id}`
    },
    async update(existing, item) {
      const fields = mayChangeUnlimited(kindDeps, existing, without(item, 'username', ...ONLY_NEW))
      const actor = await ownerOf(existing.state.fields)
      await call('updateToken', { body: { id: idOf(existing.target), ...fields }, actor })
    },
    async remove({ target, state }) {
      await call('deleteToken', { params: { id: idOf(target) }, actor: await ownerOf(state.fields) })
    },
  }
}

/** A field that decides what the other fields mean cannot change. */
function mustBeUnchanged(item: JsonObject, state: ConfigState, field: string): void {
  if (item[field] !== state.fields[field])
    throw invalidField(
      field,
      `cannot change from ${String(state.fields[field])}; use another name, or delete "${state.name}" first`,
    )
}

function createRuleKind({ trx, call }: KindDeps): FileKind {
  return {
    kind: 'alert_rule',
    keyOf: ({ name }) => textOf(name).trim(),
    async resolve(item) {
      const ids: Record<string, number[]> = {}
      if (Array.isArray(item.targets)) ids.target_ids = (await targetIds(trx))(item.targets, 'targets')
      if (Array.isArray(item.subjects)) {
        const isOfUsers = alertKind(item.kind as AlertKind).subjects === 'user'
        ids.subject_ids = (await (isOfUsers ? userIds : channelIds)(trx))(item.subjects, 'subjects')
      }
      return { ...without(item, 'targets', 'subjects'), ...ids }
    },
    create: async item => `alert_rule:${(await call('createAlertRule', { body: item })).id}`,
    async update({ target, state }, item) {
      mustBeUnchanged(item, state, 'kind')
      await call('updateAlertRule', { body: { id: idOf(target), ...without(item, 'kind') } })
    },
    remove: ({ target }) => call('deleteAlertRule', { params: { id: idOf(target) } }),
  }
}

function createTargetKind({ call, secrets }: KindDeps): FileKind {
  return {
    kind: 'alert_target',
    keyOf: ({ name }) => textOf(name).trim(),
    async create(item) {
      type NewTarget = { readonly id: number; readonly type: string; readonly secret: string }
      const { id, type, secret } = await call<NewTarget>('createAlertTarget', { body: item })
      if (type === 'webhook' && secret !== item.secret)
        secrets.push({ kind: 'alert_target', name: textOf(item.name).trim(), value: secret })
      return `alert_target:${id}`
    },
    async update({ target, state }, item) {
      mustBeUnchanged(item, state, 'type')
      await call('updateAlertTarget', { body: { id: idOf(target), ...without(item, 'type') } })
    },
    remove: ({ target }) => call('deleteAlertTarget', { params: { id: idOf(target) } }),
  }
}

/** In the order in which they are applied: an item may name those of the kinds before it. */
export const createFileKinds = (kindDeps: KindDeps): FileKinds => [
  createSettingKind(kindDeps),
  createTargetKind(kindDeps),
  createChannelKind(kindDeps),
  createAliasKind(kindDeps),
  createPriceKind(kindDeps),
  createUserKind(kindDeps),
  createTokenKind(kindDeps),
  createRuleKind(kindDeps),
]
