import { CHANNEL_STATUS, withSuffix } from '../../domain/channel.ts'
import { invalidField, notFound, Refusal } from '../../domain/errors.ts'
import type { Page } from '../../store/engine/page.ts'
import type { ChannelRow } from '../../store/engine/schema.ts'
import type { Trx } from '../../store/engine/store.ts'
import { listKeys, listSealedKeys } from '../../store/records/channel-keys.ts'
import {
  CHANNEL_ORDERS,
  type ChannelFilter,
  type ChannelOrder,
  countTypes,
} from '../../store/records/channel-lists.ts'
import {
  type ChannelSelection,
  countChannels,
  deleteChannels,
  writeModels,
} from '../../store/records/channels.ts'
import { dropCanariesOf } from '../canary/ending.ts'
import type { channelContract } from '../contract/channels.ts'
import { MAX_NAMES } from '../contract/fields.ts'
import type { BodySchema, Query } from '../contract/route.ts'
import type { Changing, Handlers } from '../server/call.ts'
import type { Deps } from '../server/deps.ts'
import { presentPage } from '../server/page.ts'
import { DEFAULTS, readFields, readProvider } from './channel-fields.ts'
import { changeKeys, createChannelKeyHandlers, mustHaveKey, readNewKeys } from './channel-keys.ts'
import { createChannelModelHandlers } from './channel-models.ts'
import { createChannelRows, presentChannels, presentOne } from './channel-rows.ts'
import { createChannelSeals } from './channel-seals.ts'
import { withState, withStates } from './channel-state.ts'
import { createChannelTagHandlers, setStatus } from './channel-tags.ts'
import { createChannelTestHandlers } from './channel-tests.ts'
import { presentChannel } from './channel-view.ts'

const MAX_CHANNELS = 100_000
/** Limit of rows that one call may write: keys of a batch times models of each channel. */
const MAX_BATCH_ROWS = 200_000

type StatedChannel = ReturnType<typeof withStates>[number]
type GroupView = { readonly tag: string | null; readonly count: number; readonly channels: StatedChannel[] }

type ListQuery = Query<(typeof channelContract)['listChannels']> &
  Partial<Pick<Query<(typeof channelContract)['searchChannels']>, 'keyword' | 'model'>>

const isOrder = (name: string | undefined): name is ChannelOrder['by'] =>
  name !== undefined && Object.hasOwn(CHANNEL_ORDERS, name)

function orderOf({ id_sort, sort_by, sort_order }: ListQuery): ChannelOrder {
  if (isOrder(sort_by)) return { by: sort_by, direction: sort_order === 'asc' ? 'asc' : 'desc' }
  return { by: id_sort ? 'id' : 'priority', direction: 'desc' }
}

type Edited = BodySchema<(typeof channelContract)['editChannels']>

/** The new models of one channel in a bulk edit; undefined if they do not change. */
function modelsAfter(before: readonly string[], { fields, add_models, remove_models }: Edited) {
  if (!add_models && !remove_models) return fields.models
  const removed = new Set(remove_models)
  const remaining = (fields.models ?? before).filter(model => !removed.has(model))
  const after = [...new Set([...remaining, ...(add_models ?? [])])]
  if (after.length > MAX_NAMES)
    throw invalidField('add_models', `must leave each channel at most ${MAX_NAMES} models`)
  return after
}

/** The routes of channels (docs/reference/management-api.md: Channels). */
export function createChannelHandlers(deps: Deps): Handlers<typeof channelContract> {
  const { db, now, digest, addressPolicy: policy } = deps
  const seals = createChannelSeals(deps)
  const stored = createChannelRows(deps)

  async function list({ query }: { query: ListQuery }) {
    const { keyword, paging } = query
    const filter: ChannelFilter = {
      status: query.status,
      type: query.type !== undefined && query.type < 0 ? undefined : query.type,
      group: query.group,
      tag: query.tag,
      model: query.model,
      keyword: keyword === undefined ? undefined : { text: keyword, digest: digest(keyword) },
    }
    const counts = countTypes(db, filter)
    const page: Promise<Page<StatedChannel | GroupView>> = query.tag_mode
      ? groups(filter, query)
      : channels(filter, query)
    const [channelPage, types] = await Promise.all([page, counts])
    return {
      ...presentPage(channelPage, paging, item => item),
      type_counts: Object.fromEntries([...types].map(([type, count]) => [String(type), count])),
    }
  }

  const present = async (rows: readonly ChannelRow[]) =>
    withStates(await presentChannels(db, rows), await deps.channels.conditions(), now())

  async function channels(filter: ChannelFilter, query: ListQuery) {
    const { items, total } = await stored.list(db, filter, orderOf(query), query.paging)
    return { items: await present(items), total }
  }

  async function groups(filter: ChannelFilter, query: ListQuery) {
    const { items, total } = await stored.groups(db, filter, orderOf(query), query.paging)
    const views = await present(items.flatMap(group => group.channels))
    const byId = new Map(views.map(channel => [channel.id, channel]))
    return {
      items: items.map(group => ({
        ...group,
        channels: group.channels.flatMap(({ id }) => byId.get(id) ?? []),
      })),
      total,
    }
  }

  async function mustFit(trx: Trx, more: number): Promise<void> {
    if ((await countChannels(trx)) + more > MAX_CHANNELS)
      throw new Refusal('conflict', `There may be at most ${MAX_CHANNELS} channels. Delete some first.`)
  }

  async function remove(changing: Changing, selection: ChannelSelection): Promise<number> {
    const { trx, audit } = changing
    const rows = await stored.lock(trx, selection)
    const views = await presentChannels(trx, rows)
    await deleteChannels(
      trx,
      rows.map(row => row.id),
    )
    for (const channel of views)
      audit({ action: 'channel.delete', target: `channel:${channel.id}`, before: channel })
    await dropCanariesOf(changing, { kind: 'channel', ids: rows.map(row => row.id), time: now() })
    return rows.length
  }

  return {
    ...createChannelKeyHandlers(deps),
    ...createChannelTagHandlers(deps),
    ...createChannelModelHandlers(deps),

    listChannels: list,
    searchChannels: list,
    getChannel: async ({ params }) => {
      const view = await presentOne(db, await stored.mustFind(db, params.id))
      return withState(view, await deps.channels.conditions(), now())
    },

    createChannel: async ({ body: { mode, channel: input, at }, change }) => {
      const { name } = input
      if (name === undefined) throw invalidField(`${at}name`, 'is required')
      const provider = readProvider(input.type, `${at}type`)
      const current = { ...DEFAULTS, type: undefined }
      const fields = { ...DEFAULTS, ...readFields(input, { current, at, policy }), type: provider.type }
      const keys = readNewKeys(input.key, mode, provider, `${at}key`)
      const models = input.models ?? []
      if (mode === 'batch' && keys.length * models.length > MAX_BATCH_ROWS)
        throw invalidField(
          `${at}models`,
          `would create ${keys.length} channels of ${models.length} models at once; send fewer keys or models`,
        )
      // One channel for each key, or one for all of them.
      const keySets = mode === 'batch' ? keys.map(key => [key]) : [keys]

      return change(async ({ trx, audit }) => {
        await mustFit(trx, keySets.length)
        const ids = await stored.insert(
          trx,
          keySets.map((_, index) => ({
            ...fields,
            name: index === 0 ? name : withSuffix(name, ` ${index + 1}`),
            created_time: now(),
            is_multi: mode === 'multi_to_single' ? 1 : 0,
          })),
        )
        await writeModels(trx, ids, models)
        await seals.add(
          trx,
          ids.flatMap((channelId, index) =>
            (keySets[index] ?? []).map((key, position) => ({ channelId, position, key })),
          ),
        )
        const views = await presentChannels(trx, await stored.find(trx, ids))
        for (const channel of views)
          audit({ action: 'channel.create', target: `channel:${channel.id}`, after: channel })
        // A new channel has no cooldown.
        const stated = withStates(views, [], now())
        const [first] = stated
        return mode === 'batch' || !first ? stated : first
      })
    },

    updateChannel: async ({ body, actor, change }) => {
      const conditions = await deps.channels.conditions()
      return change(async ({ trx, audit }) => {
        const before = await stored.mustLock(trx, body.id)
        const viewBefore = await presentOne(trx, before)
        const fields = readFields(body, { current: before, at: '', policy })
        const { isMulti, areReplaced } = await changeKeys(trx, seals, before, {
          text: body.key,
          mode: body.key_mode === 'append' ? 'append' : 'replace',
        })
        const after: ChannelRow = { ...before, ...fields, is_multi: isMulti ? 1 : 0 }
        const changed = { ...fields, is_multi: after.is_multi }
        await stored.update(trx, before, changed, { actor, areKeysReplaced: areReplaced, objects: body })
        if (after.models !== before.models) await writeModels(trx, [before.id], JSON.parse(after.models))
        const keys = (await listKeys(trx, [before.id])).get(before.id) ?? []
        if (after.type !== before.type) mustHaveKey(readProvider(after.type, 'type'), keys.length, 'key')
        const viewAfter = presentChannel(after, keys)
        audit({
          action: 'channel.update',
          target: `channel:${before.id}`,
          before: viewBefore,
          after: viewAfter,
        })
        return withState(viewAfter, conditions, now())
      })
    },

    editChannels: async ({ body, actor, change }) => {
      const rowCount = body.ids.length * ((body.fields.models?.length ?? 0) + (body.add_models?.length ?? 0))
      if (rowCount > MAX_BATCH_ROWS)
        throw invalidField(
          body.add_models ? 'add_models' : 'fields.models',
          `has ${body.ids.length} channels, too many for these models at once; send fewer ids or models`,
        )
      return change(async ({ trx, audit }) => {
        const ids = [...new Set(body.ids)]
        const rows = new Map((await stored.lock(trx, { ids })).map(row => [row.id, row]))
        const results = []
        for (const id of ids) {
          try {
            const before = rows.get(id)
            if (!before) throw notFound('channel')
            const viewBefore = await presentOne(trx, before)
            // Validated before writing, so that a refused channel does not change.
            const input = { ...body.fields, models: modelsAfter(JSON.parse(before.models), body) }
            const fields = readFields(input, { current: before, at: 'fields.', policy })
            const after: ChannelRow = { ...before, ...fields }
            await stored.update(trx, before, fields, { actor, objects: body.fields })
            if (after.models !== before.models) await writeModels(trx, [id], JSON.parse(after.models))
            const view = await presentOne(trx, after)
            audit({ action: 'channel.update', target: `channel:${id}`, before: viewBefore, after: view })
            results.push({ id, is_changed: true, code: '', message: '' })
          } catch (error) {
            // A missing permission refuses the whole request, as everywhere else.
            if (!(error instanceof Refusal) || error.code === 'forbidden') throw error
            results.push({ id, is_changed: false, code: error.code, message: error.message })
          }
        }
        return results
      })
    },

    deleteChannel: async ({ params, change }) =>
      change(async changing => {
        await stored.mustLock(changing.trx, params.id)
        await remove(changing, { ids: [params.id] })
        return undefined
      }),

    deleteChannels: async ({ body, change }) =>
      change(changing => remove(changing, { ids: [...new Set(body.ids)] })),

    deleteDisabledChannels: async ({ change }) =>
      change(changing =>
        remove(changing, { status: [CHANNEL_STATUS.disabled, CHANNEL_STATUS.disabledByGateway] }),
      ),

    copyChannel: async ({ params, query, change }) =>
      change(async ({ trx, audit }) => {
        await mustFit(trx, 1)
        const { id: _id, search: _search, ...row } = await stored.mustLock(trx, params.id)
        const [id = 0] = await stored.insert(trx, [
          {
            ...row,
            name: withSuffix(row.name, query.suffix ?? '_copy'),
            // Auto-disabling and test results of the original do not apply to the copy.
            status: row.status === CHANNEL_STATUS.enabled ? CHANNEL_STATUS.enabled : CHANNEL_STATUS.disabled,
            status_reason: '',
            created_time: now(),
            test_time: 0,
            response_time: 0,
            used: 0,
            vendor_cost: 0,
            vendor_compared: 0,
          },
        ])
        await writeModels(trx, [id], JSON.parse(row.models))
        const keys = await listSealedKeys(trx, params.id)
        await seals.add(
          trx,
          keys.map(key => ({
            channelId: id,
            position: key.position,
            key: seals.open(key),
            state: { status: key.status, reason: key.reason, disabled_time: key.disabled_time },
          })),
        )
        const view = await presentOne(trx, await stored.mustFind(trx, id))
        audit({ action: 'channel.create', target: `channel:${id}`, after: view })
        return withState(view, [], now())
      }),

    setChannelStatus: async ({ params, body, actor, change }) =>
      change(async changing => {
        const row = await stored.mustLock(changing.trx, params.id)
        return (await setStatus({ stored, changing, actor }, [row], body.status)) > 0
      }),

    setChannelStatuses: async ({ body, actor, change }) =>
      change(async changing => {
        const rows = await stored.lock(changing.trx, { ids: [...new Set(body.ids)] })
        return setStatus({ stored, changing, actor }, rows, body.status)
      }),

    ...createChannelTestHandlers(deps),
  }
}
