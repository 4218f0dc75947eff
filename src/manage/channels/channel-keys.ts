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
import { difference, maskedKey, presentChannel } from './channel-view.ts'

type Mode = 'single' | 'batch' | 'multi_to_single'

/** Vendors whose own address is the gateway's machine run there without a key. */
const needsNoKey = ({ baseUrl }: Provider) =>
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

/** The keys of a channel that is to be made, or of several in mode `batch`. */
export function readNewKeys(given: string | undefined, mode: Mode, provider: Provider, path: string) {
  const text = given?.trim() ?? ''
  const keys = mode === 'single' ? one(text, path) : several(text, path)
  if (keys.length === 0 && !(mode === 'single' && needsNoKey(provider)))
    throw invalidField(path, `is needed for ${provider.name}`)
  return keys
}

/** A channel that changed its vendor, or its keys, still has one where the vendor wants one. */
export function mustHaveKey(provider: Provider, count: number, path: string): void {
  if (count === 0 && !needsNoKey(provider)) throw invalidField(path, `is needed for ${provider.name}`)
}

export type KeysGiven = {
  readonly text: string | undefined
  readonly mode: 'append' | 'replace'
}

/** Writes the keys that an update brings; an absent, empty or masked one leaves them as they are. */
export async function changeKeys(
  trx: Trx,
  seals: ChannelSeals,
  channel: Pick<ChannelRow, 'id' | 'is_multi'>,
  given: KeysGiven,
): Promise<{ isMulti: boolean; areReplaced: boolean }> {
  const isMulti = channel.is_multi === 1
  const text = given.text?.trim() ?? ''
  const existing = await listSealedKeys(trx, channel.id)
  if (text === '' || isSentBack(text, existing)) return { isMulti, areReplaced: false }
  const isAppended = given.mode === 'append'
  const keys = isAppended || isMulti ? several(text, 'key') : one(text, 'key')
  if (!isAppended)
    await deleteKeys(
      trx,
      channel.id,
      existing.map(key => key.id),
    )
  const kept = isAppended ? existing : []
  const known = new Set(kept.map(key => key.digest))
  const added = keys.filter(key => !known.has(seals.digest(key)))
  if (kept.length + added.length > MAX_KEYS)
    throw invalidField('key', `would make ${kept.length + added.length} keys; at most ${MAX_KEYS} are taken`)
  await seals.add(
    trx,
    added.map((key, index) => ({ channelId: channel.id, position: kept.length + index, key })),
  )
  return { isMulti: isMulti || isAppended, areReplaced: !isAppended || existing.length === 0 }
}

/** As it was told, whole or in part; whole keys among masked ones are a mistake that must not lose any. */
function isSentBack(text: string, existing: readonly ChannelKey[]): boolean {
  if (text === maskedKey(existing).trim()) return true
  if (!isMasked(text)) return false
  const parts = text.split(/[,\r\n]/).filter(part => part.trim() !== '')
  if (parts.every(isMasked)) return true
  throw invalidField('key', 'mixes masked and whole keys; send the new ones alone, with key_mode "append"')
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
      throw new Refusal('conflict', 'the last key of a channel stays; delete the channel, or replace the key')
    await deleteKeys(
      trx,
      first.channel_id,
      gone.map(key => key.id),
    )
  }

  /** Changes the keys of one channel under its lock, and notes what became of them. */
  async function changing(
    { trx, audit }: Changing,
    channelId: number,
    work: (keys: readonly ChannelKey[]) => Promise<void>,
  ) {
    const row = await rows.mustLock(trx, channelId)
    const before = await keysOf(trx, row.id)
    await work(before)
    const told = presentChannel(row, await keysOf(trx, row.id))
    audit({
      action: 'channel.keys',
      target: `channel:${row.id}`,
      ...difference(presentChannel(row, before), told),
    })
    return told
  }

  const indexed = ({ key_index }: Manage, keys: readonly ChannelKey[]) => {
    if (key_index === undefined) throw invalidField('key_index', 'is needed: the place of the key, from 0')
    return keyAt(keys, key_index)
  }

  /** What each action but the look does to the keys. */
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

    setChannelKeyStatus: async ({ params, body, change }) =>
      change(call =>
        changing(call, params.id, keys => setStatus(call.trx, [keyAt(keys, params.index)], body.status)),
      ),

    deleteChannelKey: async ({ params, change }) =>
      change(call => changing(call, params.id, keys => remove(call.trx, keys, [keyAt(keys, params.index)]))),

    manageChannelKeys: async ({ body, change }) => {
      const { action } = body
      if (action === 'get_key_status') {
        const row = await mustFindChannel(db, body.channel_id)
        return tellKeys(await keysOf(db, row.id), body)
      }
      return change(async call => {
        await changing(call, body.channel_id, keys => ACTIONS[action](call.trx, keys, body))
        return tellKeys(await keysOf(call.trx, body.channel_id), body)
      })
    },
  }
}

const DEFAULT_PAGE_SIZE = 50

/** A page of the keys and how many there are of each state, in the form existing clients read. */
function tellKeys(all: readonly ChannelKey[], asked: Pick<Manage, 'page' | 'page_size' | 'status'>) {
  const page = Math.max(1, asked.page ?? 1)
  const pageSize = Math.min(
    MAX_KEYS,
    asked.page_size && asked.page_size > 0 ? asked.page_size : DEFAULT_PAGE_SIZE,
  )
  const keys = asked.status ? all.filter(({ status }) => status === asked.status) : all
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
