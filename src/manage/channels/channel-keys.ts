import { isMasked, KEY_STATUS, keyFault, MAX_KEYS, readKeys } from '../../domain/channel-key.ts'
import { invalidField, notFound, Refusal } from '../../domain/errors.ts'
import type { Provider } from '../../providers/index.ts'
import type { ChannelRow } from '../../store/engine/schema.ts'
import type { Db, Trx } from '../../store/engine/store.ts'
import {
  type ChannelKey,
  deleteKeys,
  type KeyState,
  listKeys,
  listSealedKeys,
  updateKeys,
} from '../../store/records/channel-keys.ts'
import type { channelContract } from '../contract/channels.ts'
import type { BodySchema } from '../contract/route.ts'
import type { Changing, Handlers } from '../server/call.ts'
import type { Deps } from '../server/deps.ts'
import { createChannelRows, mustFindChannel } from './channel-rows.ts'
import { type ChannelSeals, createChannelSeals } from './channel-seals.ts'
import { withState } from './channel-state.ts'
import { difference, maskedKey, presentChannel } from './channel-view.ts'

type Mode = 'single' | 'batch' | 'multi_to_single'

/** A provider whose default address is this machine needs no key. */
export const needsNoKey = ({ baseUrl }: Provider) =>
  baseUrl !== undefined && new URL(baseUrl).hostname === 'localhost'

const several = (text: string, path: string): readonly string[] => {
  const read = readKeys(text)
  if ('fault' in read) throw invalidField(path, read.fault)
  return read.keys
}

/** `single` never splits its key (docs/reference/management-api.md: Channel keys). */
const one = (text: string, path: string): readonly string[] => {
  const fault = keyFault(text)
  if (fault) throw invalidField(path, fault)
  return text === '' ? [] : [text]
}

/** The keys of a new channel, or of several in mode `batch`. */
export function readNewKeys(keyText: string | undefined, mode: Mode, provider: Provider, path: string) {
  const text = keyText?.trim() ?? ''
  const keys = mode === 'single' ? one(text, path) : several(text, path)
  if (keys.length === 0 && !(mode === 'single' && needsNoKey(provider)))
    throw invalidField(path, `is required for ${provider.name}`)
  return keys
}

/** Requires a key after a change of provider or keys, if the provider needs one. */
export function mustHaveKey(provider: Provider, count: number, path: string): void {
  if (count === 0 && !needsNoKey(provider)) throw invalidField(path, `is required for ${provider.name}`)
}

type KeysInput = {
  readonly text: string | undefined
  readonly mode: 'append' | 'replace'
}

/** Writes the keys of an update. An absent, empty or masked value keeps the stored keys. */
export async function changeKeys(
  trx: Trx,
  seals: ChannelSeals,
  channel: Pick<ChannelRow, 'id' | 'is_multi'>,
  input: KeysInput,
): Promise<{ isMulti: boolean; areReplaced: boolean }> {
  const isMulti = channel.is_multi === 1
  const text = input.text?.trim() ?? ''
  const existing = await listSealedKeys(trx, channel.id)
  if (text === '' || isMaskedForm(text, existing)) return { isMulti, areReplaced: false }
  const isAppended = input.mode === 'append'
  const keys = isAppended || isMulti ? several(text, 'key') : one(text, 'key')
  if (!isAppended)
    await deleteKeys(
      trx,
      channel.id,
      existing.map(key => key.id),
    )
  const remaining = isAppended ? existing : []
  const digests = new Set(remaining.map(key => key.digest))
  const added = keys.filter(key => !digests.has(seals.digest(key)))
  if (remaining.length + added.length > MAX_KEYS)
    throw invalidField(
      'key',
      `would make ${remaining.length + added.length} keys; the maximum is ${MAX_KEYS}`,
    )
  await seals.add(
    trx,
    added.map((key, index) => ({ channelId: channel.id, position: remaining.length + index, key })),
  )
  return { isMulti: isMulti || isAppended, areReplaced: !isAppended || existing.length === 0 }
}

/** Whether the text is the masked form. Whole keys among masked ones are refused, so that no key is lost. */
function isMaskedForm(text: string, existing: readonly ChannelKey[]): boolean {
  if (text === maskedKey(existing).trim()) return true
  if (!isMasked(text)) return false
  const parts = text.split(/[,\r\n]/).filter(part => part.trim() !== '')
  if (parts.every(isMasked)) return true
  throw invalidField('key', 'mixes masked and whole keys; send only the new keys, with key_mode "append"')
}

type Manage = BodySchema<(typeof channelContract)['manageChannelKeys']>

/** The keys of a channel one by one (docs/reference/management-api.md: Channel keys). */
export function createChannelKeyHandlers(
  deps: Deps,
): Pick<
  Handlers<typeof channelContract>,
  'revealChannelKey' | 'setChannelKeyStatus' | 'deleteChannelKey' | 'manageChannelKeys'
> {
  const { db, now } = deps
  const seals = createChannelSeals(deps)
  const rows = createChannelRows(deps)

  const stateOf = (status: number): KeyState => ({
    status,
    reason: '',
    disabled_time: status === KEY_STATUS.enabled ? 0 : now(),
  })

  const keysOf = async (source: Db, channelId: number) =>
    (await listKeys(source, [channelId])).get(channelId) ?? []

  const keyAt = (keys: readonly ChannelKey[], index: number): ChannelKey => {
    const key = keys[index]
    if (!key) throw notFound('key')
    return key
  }

  async function setStatus(trx: Trx, keys: readonly ChannelKey[], status: number) {
    const changed = keys.filter(key => key.status !== status)
    await updateKeys(
      trx,
      changed.map(key => key.id),
      stateOf(status),
    )
  }

  async function remove(trx: Trx, all: readonly ChannelKey[], gone: readonly ChannelKey[]) {
    const [first] = gone
    if (!first) return
    if (gone.length === all.length)
      throw new Refusal(
        'conflict',
        'The last key of a channel cannot be deleted. Replace the key, or delete the channel.',
      )
    await deleteKeys(
      trx,
      first.channel_id,
      gone.map(key => key.id),
    )
  }

  /** Changes the keys of one channel under its lock, and audits the change. */
  async function changing(
    { trx, audit }: Changing,
    channelId: number,
    work: (keys: readonly ChannelKey[]) => Promise<void>,
  ) {
    const row = await rows.mustLock(trx, channelId)
    const before = await keysOf(trx, row.id)
    await work(before)
    const viewAfter = presentChannel(row, await keysOf(trx, row.id))
    audit({
      action: 'channel.keys',
      target: `channel:${row.id}`,
      ...difference(presentChannel(row, before), viewAfter),
    })
    return viewAfter
  }

  const indexed = ({ key_index }: Manage, keys: readonly ChannelKey[]) => {
    if (key_index === undefined) throw invalidField('key_index', 'is required: the index of the key, from 0')
    return keyAt(keys, key_index)
  }

  /** The change that each action makes to the keys; the reading action makes none. */
  const ACTIONS: Record<
    Exclude<Manage['action'], 'get_key_status'>,
    (trx: Trx, keys: readonly ChannelKey[], body: Manage) => Promise<void>
  > = {
    enable_key: (trx, keys, body) => setStatus(trx, [indexed(body, keys)], KEY_STATUS.enabled),
    disable_key: (trx, keys, body) => setStatus(trx, [indexed(body, keys)], KEY_STATUS.disabled),
    enable_all_keys: (trx, keys) => setStatus(trx, keys, KEY_STATUS.enabled),
    disable_all_keys: (trx, keys) => setStatus(trx, keys, KEY_STATUS.disabled),
    delete_key: (trx, keys, body) => remove(trx, keys, [indexed(body, keys)]),
    delete_disabled_keys: (trx, keys) =>
      remove(
        trx,
        keys,
        keys.filter(key => key.status === KEY_STATUS.disabledByGateway),
      ),
  }

  return {
    revealChannelKey: async ({ params, change }) =>
      change(async ({ trx, audit }) => {
        const row = await mustFindChannel(trx, params.id)
        const keys = await listSealedKeys(trx, row.id)
        audit({ action: 'channel.reveal', target: `channel:${row.id}` })
        return { key: keys.map(key => seals.open(key)).join('\n') }
      }),

    setChannelKeyStatus: async ({ params, body, change }) => {
      const conditions = await deps.channels.conditions()
      return change(async call => {
        const view = await changing(call, params.id, keys =>
          setStatus(call.trx, [keyAt(keys, params.index)], body.status),
        )
        return withState(view, conditions, now())
      })
    },

    deleteChannelKey: async ({ params, change }) => {
      const conditions = await deps.channels.conditions()
      return change(async call => {
        const view = await changing(call, params.id, keys =>
          remove(call.trx, keys, [keyAt(keys, params.index)]),
        )
        return withState(view, conditions, now())
      })
    },

    manageChannelKeys: async ({ body, change }) => {
      const { action } = body
      if (action === 'get_key_status') {
        const row = await mustFindChannel(db, body.channel_id)
        return presentKeys(await keysOf(db, row.id), body)
      }
      return change(async call => {
        await changing(call, body.channel_id, keys => ACTIONS[action](call.trx, keys, body))
        return presentKeys(await keysOf(call.trx, body.channel_id), body)
      })
    },
  }
}

const DEFAULT_PAGE_SIZE = 50

/** A page of the keys and their number in each state, in the form of existing clients. */
function presentKeys(all: readonly ChannelKey[], filter: Pick<Manage, 'page' | 'page_size' | 'status'>) {
  const page = Math.max(1, filter.page ?? 1)
  const pageSize = Math.min(
    MAX_KEYS,
    filter.page_size && filter.page_size > 0 ? filter.page_size : DEFAULT_PAGE_SIZE,
  )
  const keys = filter.status ? all.filter(({ status }) => status === filter.status) : all
  const count = (status: number) => all.filter(key => key.status === status).length
  return {
    keys: keys.slice((page - 1) * pageSize, page * pageSize).map(key => ({
      index: key.position,
      status: key.status,
      ...(key.status === KEY_STATUS.enabled ? {} : { disabled_time: key.disabled_time, reason: key.reason }),
      key_preview: key.hint,
    })),
    total: keys.length,
    page,
    page_size: pageSize,
    total_pages: Math.ceil(keys.length / pageSize),
    enabled_count: count(KEY_STATUS.enabled),
    manual_disabled_count: count(KEY_STATUS.disabled),
    auto_disabled_count: count(KEY_STATUS.disabledByGateway),
  }
}
