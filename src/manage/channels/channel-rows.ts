import { NO_HEADERS } from '../../domain/channel.ts'
import { withoutPlaceholders } from '../../domain/channel-network.ts'
import { notFound } from '../../domain/errors.ts'
import { openHeaders, sealHeaders } from '../../identity/channel-headers.ts'
import { openSetting, sealSetting } from '../../identity/channel-setting.ts'
import { SealError } from '../../identity/keyring.ts'
import { DESTINATION_COLUMNS } from '../../identity/secret-destination.ts'
import type { Page, Paging } from '../../store/engine/page.ts'
import type { ChannelRow, NewChannel } from '../../store/engine/schema.ts'
import type { Db, Trx } from '../../store/engine/store.ts'
import { listKeys } from '../../store/records/channel-keys.ts'
import {
  type ChannelFilter,
  type ChannelOrder,
  listChannels,
  listTagGroups,
} from '../../store/records/channel-lists.ts'
import {
  type ChannelChange,
  type ChannelSelection,
  findChannel,
  findChannels,
  insertChannels,
  lockChannels,
  updateChannel,
  updateChannels,
} from '../../store/records/channels.ts'
import type { Deps } from '../server/deps.ts'
import { mustNotMoveSecrets, type SentSecrets } from './channel-destination.ts'
import { type ChannelView, presentChannel } from './channel-view.ts'

/** The row as it is stored: its headers and the secrets of its setting stay sealed. */
export async function mustFindChannel(db: Db, id: number): Promise<ChannelRow> {
  const row = await findChannel(db, id)
  if (!row) throw notFound('channel')
  return row
}

const NO_SETTING = '{}'

type Listing<Item> = (
  db: Db,
  filter: ChannelFilter,
  order: ChannelOrder,
  paging: Paging,
) => Promise<Page<Item>>

const pagesOf =
  <Item>(list: Listing<Item>, open: (item: Item) => Item): Listing<Item> =>
  async (...criteria) => {
    const { items, total } = await list(...criteria)
    return { items: items.map(open), total }
  }

/** A text that cannot be decrypted is replaced, so that an administrator can enter it again. The relay skips the channel. */
function openOr(open: () => string, replacement: () => string): string {
  try {
    return open()
  } catch (error) {
    if (!(error instanceof SealError)) throw error
    return replacement()
  }
}

/** Reads rows of channels with decrypted headers and settings, and encrypts these again on writing. */
export function createChannelRows({ keyring }: Pick<Deps, 'keyring'>) {
  const open = (row: ChannelRow): ChannelRow => ({
    ...row,
    header_override: openOr(
      () => openHeaders(keyring, row),
      () => NO_HEADERS,
    ),
    setting: openOr(
      () => openSetting(keyring, row),
      () => JSON.stringify(withoutPlaceholders(JSON.parse(row.setting))),
    ),
  })

  const lock = async (trx: Trx, selection: ChannelSelection) => (await lockChannels(trx, selection)).map(open)

  const setHeaders = (trx: Trx, id: number, text: string) =>
    updateChannels(trx, [id], { header_override: sealHeaders(keyring, id, text) })

  const setSetting = (trx: Trx, id: number, text: string) =>
    updateChannels(trx, [id], sealSetting(keyring, id, text))

  /** Every change of a stored channel is checked here, so that none sends its secrets to a new destination. */
  async function mustKeepSecrets(
    trx: Trx,
    before: ChannelRow,
    change: ChannelChange,
    sentSecrets: SentSecrets,
  ) {
    if (DESTINATION_COLUMNS.every(column => change[column] === undefined)) return
    const hasKeys = async () => ((await listKeys(trx, [before.id])).get(before.id)?.length ?? 0) > 0
    await mustNotMoveSecrets({ before, after: { ...before, ...change }, sentSecrets: sentSecrets, hasKeys })
  }

  return {
    lock,

    mustFind: async (db: Db, id: number) => open(await mustFindChannel(db, id)),

    /** The same for a change: the row is locked until the transaction ends. */
    async mustLock(trx: Trx, id: number): Promise<ChannelRow> {
      const [row] = await lock(trx, { ids: [id] })
      if (!row) throw notFound('channel')
      return row
    },

    find: async (db: Db, ids: readonly number[]) => (await findChannels(db, ids)).map(open),

    list: pagesOf(listChannels, open),

    groups: pagesOf(listTagGroups, group => ({ ...group, channels: group.channels.map(open) })),

    async insert(trx: Trx, channels: readonly Omit<NewChannel, 'id' | 'search'>[]): Promise<number[]> {
      // The encryption is bound to the row id, so the row is inserted first.
      const ids = await insertChannels(
        trx,
        channels.map(channel => ({
          ...channel,
          header_override: NO_HEADERS,
          setting: NO_SETTING,
          setting_sealed: '',
        })),
      )
      for (const [index, id] of ids.entries()) {
        const text = channels[index]?.header_override ?? NO_HEADERS
        if (text !== NO_HEADERS) await setHeaders(trx, id, text)
        const setting = channels[index]?.setting ?? NO_SETTING
        if (setting !== NO_SETTING) await setSetting(trx, id, setting)
      }
      return ids
    },

    async update(
      trx: Trx,
      current: ChannelRow,
      change: ChannelChange,
      sentSecrets: SentSecrets,
    ): Promise<void> {
      await mustKeepSecrets(trx, current, change, sentSecrets)
      const { header_override: text, setting } = change
      await updateChannel(trx, current, {
        ...change,
        ...(text !== undefined && { header_override: sealHeaders(keyring, current.id, text) }),
        ...(setting !== undefined && sealSetting(keyring, current.id, setting)),
      })
    },

    async updateTogether(
      trx: Trx,
      rows: readonly ChannelRow[],
      change: Omit<ChannelChange, 'name' | 'base_url'>,
      sentSecrets: SentSecrets,
    ): Promise<void> {
      for (const row of rows) await mustKeepSecrets(trx, row, change, sentSecrets)
      const ids = rows.map(row => row.id)
      const { header_override: text, setting, ...rest } = change
      await updateChannels(trx, ids, rest)
      if (text !== undefined) for (const id of ids) await setHeaders(trx, id, text)
      if (setting !== undefined) for (const id of ids) await setSetting(trx, id, setting)
    },
  }
}

export type ChannelRows = ReturnType<typeof createChannelRows>

/** Channels with their keys, in one query for all of them. */
export async function presentChannels(db: Db, rows: readonly ChannelRow[]): Promise<ChannelView[]> {
  const keys = await listKeys(
    db,
    rows.map(row => row.id),
  )
  return rows.map(row => presentChannel(row, keys.get(row.id) ?? []))
}

export async function presentOne(db: Db, row: ChannelRow): Promise<ChannelView> {
  const keys = await listKeys(db, [row.id])
  return presentChannel(row, keys.get(row.id) ?? [])
}
