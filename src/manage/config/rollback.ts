import { isDeepStrictEqual } from 'node:util'
import type { Actor } from '../../domain/actor.ts'
import { type AlertKind, alertKind } from '../../domain/alert.ts'
import { refuseAlias } from '../../domain/alias.ts'
import { CHANNEL_STATUS } from '../../domain/channel.ts'
import type { RevisionChange } from '../../domain/config-change.ts'
import { notFound, Refusal } from '../../domain/errors.ts'
import { HIDDEN, maskHidden } from '../../domain/hidden-secret.ts'
import type { JsonObject } from '../../domain/json-object.ts'
import { mergeLimits } from '../../domain/limits.ts'
import { isMove } from '../../identity/secret-destination.ts'
import { providerOf } from '../../providers/index.ts'
import { lockAuditChain } from '../../store/books/chains.ts'
import type { ConfigChangeRow } from '../../store/engine/schema.ts'
import { isUniqueViolation, type Trx } from '../../store/engine/store.ts'
import {
  aliasTargets,
  deleteAlias,
  findAlias,
  insertAlias,
  updateAlias,
} from '../../store/records/aliases.ts'
import { existingChannels, writeModels } from '../../store/records/channels.ts'
import { changesBetween, findRevision, lastChangeOfObject } from '../../store/records/config-history.ts'
import { endPrices, findPriceInForce } from '../../store/records/prices.ts'
import { updateToken } from '../../store/records/tokens.ts'
import { findUser, updateUser } from '../../store/records/users.ts'
import { dropCanariesOf } from '../canary/ending.ts'
import { DEFAULTS, readFields } from '../channels/channel-fields.ts'
import { needsNoKey } from '../channels/channel-keys.ts'
import { createChannelRows } from '../channels/channel-rows.ts'
import { channelContract } from '../contract/channels.ts'
import type { Changing } from '../server/call.ts'
import { type ConfigDeps, createConfigCall } from './handlers.ts'
import { type ConfigHistory, differences, RECORDED_KINDS } from './history.ts'
import { type ConfigState, splitTarget, upcomingOf } from './states.ts'

/** An object that has changed since the revision. */
type ChangedObject = {
  readonly object: string
  /** Where it is now, or was last. */
  readonly target: string
  readonly name: string
  /** As it was at the revision; null if it did not exist. */
  readonly desired: JsonObject | null
}

export type RollbackOutcome = {
  readonly changes: RevisionChange[]
  readonly warnings: string[]
  /** The former target of each object that was created again. */
  readonly origins: ReadonlyMap<string, string>
}

const ALL = Number.MAX_SAFE_INTEGER
const idOf = (target: string) => Number(splitTarget(target).key)
const parse = (text: string | null) => (text === null ? null : (JSON.parse(text) as JsonObject))

/** The objects that have changed since, with their state at the revision: what the first later change has replaced. */
function changedObjects(rows: readonly ConfigChangeRow[]): ChangedObject[] {
  return [...Map.groupBy(rows, row => row.object)].map(([object, ofObject]) => {
    const [first] = ofObject
    const last = ofObject.at(-1)
    return {
      object,
      target: last?.target ?? object,
      name: last?.name ?? '',
      desired: parse(first?.before ?? null),
    }
  })
}

/** Deletions come first: they free names. */
const inOrder = (objects: readonly ChangedObject[]) =>
  objects.toSorted((a, b) => Number(a.desired !== null) - Number(b.desired !== null))

/** Secrets are in no revision, so the stored ones stay. */
function withSecrets(
  fields: JsonObject,
  stored: Readonly<Record<string, string>>,
): { readonly fields: Record<string, unknown>; readonly missing: readonly string[] } {
  const result: Record<string, unknown> = { ...fields }
  const missing: string[] = []
  for (const name of ['header_override', 'setting']) {
    if (!(name in fields)) continue
    const read = maskHidden(fields[name] as JsonObject, JSON.parse(stored[name] ?? '{}'), name)
    result[name] = read.object
    missing.push(...read.missing)
  }
  return { fields: result, missing }
}

const needsKey = ({ type }: JsonObject) => {
  const provider = providerOf(Number(type))
  return provider !== undefined && !needsNoKey(provider)
}

/** The price at a revision, with the scheduled versions that have come into force since. */
function duePrice(desired: JsonObject, now: number): JsonObject {
  const { model, upcoming: _upcoming, ...current } = desired
  const due = upcomingOf(desired).filter(({ effective_time }) => effective_time <= now)
  const later = upcomingOf(desired).filter(({ effective_time }) => effective_time > now)
  const { effective_time: _time, ...latest } = due.at(-1) ?? { effective_time: 0, ...current }
  return { model, ...latest, ...(later.length > 0 && { upcoming: later }) }
}

/** Restores the configuration of a revision (docs/reference/configuration-file.md: Rolling back). */
export function createConfigRollback(deps: ConfigDeps, { states }: Pick<ConfigHistory, 'states'>) {
  const rows = createChannelRows(deps)
  const policy = deps.addressPolicy

  return async function rollback(
    changing: Changing,
    { revision, actor }: { readonly revision: number; readonly actor: Actor },
  ): Promise<RollbackOutcome> {
    const { trx, audit } = changing
    await lockAuditChain(trx)
    if (!(await findRevision(trx, revision))) throw notFound('revision')
    const call = createConfigCall(deps, { changing, actor, passwords: deps.passwords })
    const objects = changedObjects(await changesBetween(trx, revision, ALL))
    const warnings: string[] = []
    const origins = new Map<string, string>()
    /** New targets by the former ones, of this rollback. */
    const restored = new Map<string, string>()

    /** A channel that was restored has another id. One that is gone keeps its id, so that an alias never allows more. */
    async function currentIds(trxNow: Trx, ids: unknown): Promise<unknown> {
      if (!Array.isArray(ids)) return ids
      const existing = await existingChannels(trxNow, ids)
      return Promise.all(
        ids.map(async (id: number) => {
          const target = restored.get(`channel:${id}`)
          if (target !== undefined) return idOf(target)
          if (existing.has(id)) return id
          const last = await lastChangeOfObject(trxNow, `channel:${id}`)
          return last?.after ? idOf(last.target) : id
        }),
      )
    }

    function create(object: ChangedObject, target: string): string {
      origins.set(target, object.object)
      restored.set(object.object, target)
      restored.set(object.target, target)
      return target
    }

    async function insertChannel(object: ChangedObject, desired: JsonObject): Promise<string> {
      const { fields, missing } = withSecrets(desired, {})
      const { id: _id, ...input } = channelContract.updateChannel.body.parse({ id: 1, ...fields })
      const columns = readFields(input, { current: { ...DEFAULTS, type: undefined }, at: '', policy })
      const [id = 0] = await rows.insert(trx, [
        {
          ...DEFAULTS,
          ...columns,
          name: object.name,
          type: Number(desired.type),
          status: CHANNEL_STATUS.disabled,
          created_time: deps.now(),
        },
      ])
      await writeModels(trx, [id], JSON.parse(columns.models ?? '[]'))
      const target = create(object, `channel:${id}`)
      audit({ action: 'channel.create', target, after: (await states.read(trx, target))?.fields })
      warnings.push(
        `channel "${object.name}" is restored without keys, as channel ${id}, and is disabled.`,
        ...missing.map(path => `channel "${object.name}": ${path} is not restored, because it is a secret.`),
      )
      return target
    }

    async function restoreChannel(object: ChangedObject, state: ConfigState | undefined): Promise<void> {
      const { desired, target } = object
      if (!desired) return void (state && (await call('deleteChannel', { params: { id: idOf(target) } })))
      if (!state) return void (await insertChannel(object, desired))
      const changed = Object.fromEntries(
        differences(state.fields, desired).map(({ path }) => [path, desired[path]]),
      )
      const { fields, missing } = withSecrets(changed, state.secrets)
      for (const path of missing)
        warnings.push(`channel "${state.name}": ${path} is not restored, because it is a secret.`)
      // Without the keys that a restored channel has lost, it would fail every request.
      if (fields.status === CHANNEL_STATUS.enabled && state.secrets.key === '' && needsKey(desired)) {
        delete fields.status
        warnings.push(`channel "${state.name}" stays disabled, because it has no keys.`)
      }
      const before = await rows.mustFind(trx, idOf(target))
      await call('updateChannel', { body: { id: idOf(target), ...fields } })
      // Revisions have no keys: the present ones may be newer than the destination, and not be meant for it.
      const isSent = state.secrets.key !== '' && isMove(before, await rows.mustFind(trx, before.id))
      if (isSent) warnings.push(`channel "${state.name}": its present keys are sent to another destination.`)
    }

    async function restoreAlias(object: ChangedObject, state: ConfigState | undefined): Promise<void> {
      const { desired, target } = object
      const id = idOf(target)
      if (!desired) {
        if (!state) return
        await deleteAlias(trx, id)
        audit({ action: 'alias.delete', target, before: state.fields })
        return dropCanariesOf(changing, { kind: 'alias', ids: [id], time: deps.now() })
      }
      const ids = await currentIds(trx, desired.channel_ids)
      const fields = {
        name: String(desired.name),
        target: String(desired.target),
        channel_ids: ids === null ? null : JSON.stringify(ids),
        status: Number(desired.status),
      }
      const row = state && (await findAlias(trx, id))
      if (row) {
        await updateAlias(trx, row, fields)
        return audit({
          action: 'alias.update',
          target,
          before: state.fields,
          after: { ...desired, channel_ids: ids },
        })
      }
      const newTarget = create(
        object,
        `alias:${await insertAlias(trx, { ...fields, created_time: deps.now() })}`,
      )
      audit({ action: 'alias.create', target: newTarget, after: { ...desired, channel_ids: ids } })
    }

    /** Aliases are written one after another, so they are checked when all of them are written. */
    async function checkAliases(names: readonly string[]): Promise<void> {
      if (names.length === 0) return
      const targets = await aliasTargets(trx)
      for (const name of names) {
        const target = targets.get(name)
        if (target === undefined) continue
        targets.delete(name)
        const reason = refuseAlias(targets, name, target)
        if (reason !== undefined) throw new Refusal('conflict', reason)
        targets.set(name, target)
      }
    }

    async function endPrice(model: string): Promise<void> {
      const row = await findPriceInForce(trx, model, deps.now())
      const last =
        row ?? (await trx.selectFrom('prices').select('id').where('model', '=', model).executeTakeFirst())
      if ((await endPrices(trx, model, deps.now())) > 0 && last)
        audit({ action: 'price.delete', target: `price:${last.id}`, before: { model } })
    }

    async function restorePrice(object: ChangedObject, state: ConfigState | undefined): Promise<void> {
      const model = splitTarget(object.target).key
      if (!object.desired) return void (state && (await endPrice(model)))
      const desired = duePrice(object.desired, deps.now())
      const { upcoming: _upcoming, ...inForce } = desired
      const { upcoming: _stateUpcoming, ...stateInForce } = state?.fields ?? { model }
      const isIn = (list: readonly JsonObject[], price: JsonObject) =>
        list.some(other => isDeepStrictEqual(other, price))
      const stale = upcomingOf(state?.fields ?? {}).some(price => !isIn(upcomingOf(desired), price))
      const isPriced = Object.keys(inForce).length > 1
      const mustEnd = stale || (!isPriced && Object.keys(stateInForce).length > 1)
      if (mustEnd) await endPrice(model)
      if (isPriced && (mustEnd || !isDeepStrictEqual(inForce, stateInForce)))
        await call('createPrice', { body: inForce })
      for (const price of upcomingOf(desired))
        if (mustEnd || !isIn(upcomingOf(state?.fields ?? {}), price))
          await call('createPrice', { body: { model, ...price } })
    }

    async function restoreSetting({ desired, target }: ChangedObject, state: ConfigState | undefined) {
      const { key } = splitTarget(target)
      if (desired?.value === HIDDEN) {
        if (!state) warnings.push(`setting "${key}" is not restored, because it is a secret.`)
        return
      }
      await call('updateSettings', { body: { [key]: desired ? desired.value : null } })
    }

    async function restoreRule(object: ChangedObject, state: ConfigState | undefined): Promise<void> {
      const { desired, target } = object
      if (!desired) return void (state && (await call('deleteAlertRule', { params: { id: idOf(target) } })))
      const isOfChannels = alertKind(desired.kind as AlertKind).subjects === 'channel'
      const subject_ids = isOfChannels ? await currentIds(trx, desired.subject_ids) : desired.subject_ids
      const rule: JsonObject = { ...desired, subject_ids }
      const { kind, ...fields } = rule
      if (state) return void (await call('updateAlertRule', { body: { id: idOf(target), ...fields } }))
      const { id } = await call('createAlertRule', { body: { kind, ...fields } })
      create(object, `alert_rule:${id}`)
    }

    /** Only the limits of users and tokens that still exist; nothing else of them. */
    async function restoreLimits({ desired, target }: ChangedObject, state: ConfigState | undefined) {
      const { kind, key } = splitTarget(target)
      const limits = mergeLimits({ rpm: null, tpm: null, concurrency: null, ...(desired?.limits as object) })
      const note = { before: state?.fields, after: { limits: JSON.parse(limits) } }
      if (kind === 'token_limits') {
        const token = await trx
          .selectFrom('tokens')
          .select('id')
          .where('id', '=', Number(key))
          .executeTakeFirst()
        if (!token) return
        await updateToken(trx, token.id, { limits })
        return audit({ action: 'token.update', target: `token:${token.id}`, ...note })
      }
      const user = await findUser(trx, Number(key))
      if (!user) return
      await updateUser(trx, user, { limits })
      audit({ action: 'user.update', target: `user:${user.id}`, ...note })
    }

    const RESTORES: Readonly<
      Record<
        (typeof RECORDED_KINDS)[number],
        (object: ChangedObject, state: ConfigState | undefined) => Promise<void>
      >
    > = {
      channel: restoreChannel,
      alias: restoreAlias,
      price: restorePrice,
      setting: restoreSetting,
      alert_rule: restoreRule,
      user_limits: restoreLimits,
      token_limits: restoreLimits,
    }

    const changes: RevisionChange[] = []
    for (const kind of RECORDED_KINDS)
      for (const object of inOrder(objects.filter(({ target }) => splitTarget(target).kind === kind))) {
        const before = await states.read(trx, object.target)
        if (isDeepStrictEqual(before?.fields ?? null, object.desired)) continue
        await RESTORES[kind](object, before).catch(error => {
          const label = `${kind.replaceAll('_', ' ')} "${object.name}"`
          if (isUniqueViolation(error))
            throw new Refusal('conflict', `${label}: another one has its former name. Rename that one first.`)
          throw error instanceof Refusal ? new Refusal(error.code, `${label}: ${error.message}`) : error
        })
        const target = restored.get(object.object) ?? object.target
        const after = await states.read(trx, target)
        const fields = differences(before?.fields ?? null, after?.fields ?? null)
        if (fields.length === 0) continue
        const action = before ? (after ? 'update' : 'delete') : 'create'
        changes.push({ target, name: (after ?? before)?.name ?? object.name, action, fields })
      }
    const isAlias = ({ target }: RevisionChange) => splitTarget(target).kind === 'alias'
    await checkAliases(changes.filter(isAlias).map(({ name }) => name))
    return { changes, warnings, origins }
  }
}
