import { CHANNEL_STATUS } from '../../domain/channel.ts'
import { sealHeaders } from '../../identity/channel-headers.ts'
import { sealSetting } from '../../identity/channel-setting.ts'
import { DESTINATION_COLUMNS, type DestinationColumns, isMove } from '../../identity/secret-destination.ts'
import { chainKeyOf } from '../../store/books/chain-key.ts'
import { statesOfRows } from '../../store/engine/row-states.ts'
import type { ChannelRow, ImportRow } from '../../store/engine/schema.ts'
import { type Trx, transact } from '../../store/engine/store.ts'
import { deleteKeys, listSealedKeys } from '../../store/records/channel-keys.ts'
import { updateChannel, updateChannels, writeModels } from '../../store/records/channels.ts'
import { deleteImport, findImports, saveImports } from '../../store/records/imports.ts'
import { DEFAULTS } from '../channels/channel-fields.ts'
import { createChannelRows } from '../channels/channel-rows.ts'
import { createChannelSeals } from '../channels/channel-seals.ts'
import { type ChannelCheck, checkChannel } from './channel-fields.ts'
import { auditImport, type ImportContext, type ImportState, importRow, stateOf } from './context.ts'
import { compareFields, conflictMessage, digestFields } from './difference.ts'
import type { SourceChannel, SourceKey } from './inventory.ts'
import { findRotatedChannels } from './rotated-channels.ts'

type Checked = {
  readonly channel: SourceChannel
  readonly check: Extract<ChannelCheck, { columns: unknown }>
}

const COLUMNS = [
  'name',
  'type',
  'base_url',
  'models',
  'model_mapping',
  'priority',
  'weight',
  'status',
  'tag',
  'channel_group',
  'auto_ban',
  'test_model',
  'param_override',
  'header_override',
  'status_code_mapping',
  'setting',
  'openai_organization',
  'other',
  'remark',
  'limits',
] as const
type Column = (typeof COLUMNS)[number]

type Fields = Readonly<Record<Column | 'keys', string | number | null>>

const DESTINATION: ReadonlySet<string> = new Set(DESTINATION_COLUMNS)
const WITH_SECRETS = ['keys', 'header_override', 'setting'] as const

/** Whether a change in the source would send secrets that were entered here to a server that the source names. */
function redirectsSecrets(changed: readonly (Column | 'keys')[], source: Fields, here: Fields): boolean {
  const after = { ...here, ...Object.fromEntries(changed.map(name => [name, source[name]])) }
  const columnsOf = (fields: Fields) => fields as unknown as DestinationColumns
  return isMove(columnsOf(here), columnsOf(after)) && WITH_SECRETS.some(name => after[name] !== source[name])
}

/** Imports channels with their keys. Returns our ids by those of the source. */
export async function importChannels(
  context: ImportContext,
  pages: AsyncIterable<readonly SourceChannel[]>,
): Promise<ReadonlyMap<string, number>> {
  const { db, digest, keyring, isDry, notes, now, source } = context
  const stored = createChannelRows({ keyring })
  const seals = createChannelSeals({ keyring, digest })
  const imported = await findImports(db, source, 'channel')
  const ids = new Map([...imported.values()].map(row => [row.source_id, row.target_id]))
  const seenIds = new Set<string>()

  /** Keys in their order, as one text to compare. */
  const keysText = (digests: readonly string[]) => digests.join(' ')
  const keysOf = (keys: readonly SourceKey[]) => keysText(keys.map(({ key }) => digest(key)))

  function rowOf({ channel, check }: Checked) {
    const isDisabled = check.reasons.length > 0 && channel.status === CHANNEL_STATUS.enabled
    return {
      ...DEFAULTS,
      ...check.columns,
      name: check.columns.name ?? channel.label.slice(0, 100),
      type: channel.type,
      status: isDisabled ? CHANNEL_STATUS.disabled : channel.status,
      status_reason: isDisabled ? check.reasons.join('; ').slice(0, 500) : channel.statusReason,
      created_time: channel.createdTime || now(),
      is_multi: channel.isMulti ? 1 : 0,
    }
  }

  const fieldsOf = (row: Pick<ChannelRow, Column>) =>
    Object.fromEntries(COLUMNS.map(name => [name, row[name]])) as Record<Column, string | number | null>

  const stateFor = (checked: Checked): ImportState => ({
    anchor: checked.channel.anchor,
    fields: {
      ...digestFields(fieldsOf(rowOf(checked)), digest),
      ...digestFields({ keys: keysOf(checked.check.keys) }, digest),
    },
  })

  const addKeys = (trx: Trx, channelId: number, keys: readonly SourceKey[]) =>
    seals.add(
      trx,
      keys.map(({ key, status, reason, disabledTime }, position) => ({
        channelId,
        position,
        key,
        state: { status, reason, disabled_time: disabledTime },
      })),
    )

  async function create(all: readonly Checked[]): Promise<void> {
    if (all.length === 0) return
    notes.count('channels', 'created', all.length)
    if (isDry) return
    const created = await transact(db, async trx => {
      const rows = all.map(rowOf)
      const channelIds = await stored.insert(trx, rows)
      for (const [index, id] of channelIds.entries()) {
        await writeModels(trx, [id], JSON.parse(rows[index]?.models ?? '[]'))
        await addKeys(trx, id, all[index]?.check.keys ?? [])
      }
      await saveImports(
        trx,
        all.map((checked, index) =>
          importRow(context, 'channel', {
            sourceId: checked.channel.sourceId,
            targetId: channelIds[index] as number,
            state: stateFor(checked),
          }),
        ),
      )
      await auditImport(trx, context, {
        action: 'import.channels',
        target: `import:${source}`,
        after: rows.map(({ name, type }, index) => ({ id: channelIds[index], name, type })),
        states: await statesOfRows(trx, chainKeyOf(trx), 'channel', channelIds),
      })
      return channelIds
    })
    for (const [index, { channel }] of all.entries()) ids.set(channel.sourceId, created[index] as number)
    await context.announce(created.map(id => `channel:${id}`))
  }

  async function update(checked: Checked, imports: ImportRow): Promise<void> {
    const { channel, check } = checked
    const [here] = await stored.find(db as Trx, [imports.target_id])
    if (!here) {
      notes.count('channels', 'skipped')
      notes.note('channel', channel.label, 'was deleted here and stays deleted')
      ids.delete(channel.sourceId)
      return
    }
    const last = stateOf(imports)
    const row = rowOf(checked)
    const keysHere = keysText((await listSealedKeys(db, here.id)).map(key => key.digest))
    const [sourceFields, fieldsHere] = [
      { ...fieldsOf(row), keys: keysOf(check.keys) },
      { ...fieldsOf(here), keys: keysHere },
    ]
    const compared = compareFields<Column | 'keys'>(last.fields ?? {}, sourceFields, fieldsHere, digest)
    const { conflicting } = compared
    const isRedirected = redirectsSecrets(compared.changed, sourceFields, fieldsHere)
    const changed = isRedirected ? compared.changed.filter(name => !DESTINATION.has(name)) : compared.changed
    if (isRedirected)
      notes.note(
        'channel',
        channel.label,
        'has another destination there, and keys or settings that were changed here; its destination here stays',
      )
    if (conflicting.length > 0) notes.note('channel', channel.label, conflictMessage(conflicting))
    notes.count('channels', changed.length === 0 ? 'unchanged' : 'changed')
    const state = stateFor(checked)
    const isRotated = imports.source_id !== channel.sourceId
    if (isDry || (changed.length === 0 && !isRotated && JSON.stringify(state) === imports.state)) return
    await transact(db, async trx => {
      const columns = changed.filter(name => name !== 'keys')
      const change = Object.fromEntries(columns.map(name => [name, row[name]]))
      if (change.header_override !== undefined)
        change.header_override = sealHeaders(keyring, here.id, String(change.header_override))
      if (change.setting !== undefined)
        Object.assign(change, sealSetting(keyring, here.id, String(change.setting)))
      if (change.status !== undefined) change.status_reason = row.status_reason
      // `here` has its secrets in the clear; only the changed columns are written.
      if (columns.length > 0) await updateChannel(trx, here, change)
      if (change.models !== undefined) await writeModels(trx, [here.id], JSON.parse(row.models))
      if (changed.includes('keys')) {
        await deleteKeys(
          trx,
          here.id,
          (await listSealedKeys(trx, here.id)).map(key => key.id),
        )
        await addKeys(trx, here.id, check.keys)
        await updateChannels(trx, [here.id], { is_multi: row.is_multi })
      }
      if (isRotated) await deleteImport(trx, imports)
      await saveImports(trx, [
        importRow(context, 'channel', { sourceId: channel.sourceId, targetId: here.id, state }),
      ])
      if (changed.length > 0)
        await auditImport(trx, context, {
          action: 'import.channel',
          target: `channel:${here.id}`,
          after: { fields: changed },
        })
    })
    if (changed.length > 0) await context.announce([`channel:${here.id}`])
  }

  /** A channel that was deleted there stays here: deleting it is a decision about this gateway. */
  function noteGone(): void {
    for (const row of imported.values())
      if (!seenIds.has(row.source_id))
        notes.note(
          'channel',
          `channel ${row.source_id}`,
          `is no longer there; the channel ${row.target_id} stays here`,
        )
  }

  for await (const page of pages) {
    const fresh: Checked[] = []
    const rotated = findRotatedChannels(imported, page, digest)
    for (const channel of page) {
      if (seenIds.has(channel.sourceId)) continue
      seenIds.add(channel.sourceId)
      const warn = (message: string) => notes.note('channel', channel.label, message)
      const former = rotated.get(channel.sourceId)
      if (former) seenIds.add(former.source_id)
      if (former && channel.isKeyUnknown) {
        notes.count('channels', 'skipped')
        warn(`its key is not known; the channel ${former.target_id} stays as it is`)
        continue
      }
      const check = checkChannel(channel, context.policy, warn)
      if ('refusal' in check) {
        notes.count('channels', 'skipped')
        warn(`is not carried over: ${check.refusal}`)
        continue
      }
      if (check.reasons.length > 0 && channel.status === CHANNEL_STATUS.enabled)
        warn(`becomes disabled: ${check.reasons.join('; ')}`)
      const row = imported.get(channel.sourceId) ?? former
      if (row) await update({ channel, check }, row)
      else fresh.push({ channel, check })
    }
    await create(fresh)
  }
  noteGone()
  return ids
}
