import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import type { Channel } from '../../api/contract.ts'
import { Button } from '../../look/button.tsx'
import { Pencil, Power, PowerOff } from '../../look/icons.ts'
import { DataTable } from '../../look/table.tsx'
import type { Column, Selection } from '../../look/table-props.ts'
import { toast } from '../../look/toast.tsx'
import { useAction } from '../../look/use-action.ts'
import { BulkEdit } from './bulk-edit.tsx'

/** The channels of one tag, or without one. Large groups contain only the first channels. */
export type ChannelTagGroup = {
  readonly tag: string | null
  readonly count: number
  readonly channels: readonly Channel[]
}

type GroupsProps = {
  readonly groups: readonly ChannelTagGroup[]
  readonly columns: readonly Column<Channel>[]
  readonly selection: Selection
  readonly openId: string | undefined
  readonly isStale: boolean
  readonly onOpen: (channel: Channel) => void
}

/** Actions on all channels of a tag. */
function GroupActions({
  group,
  onSelect,
}: {
  readonly group: ChannelTagGroup
  readonly onSelect: Selection['onChange']
}) {
  const { t } = useTranslation()
  const enable = useAction('enableTag')
  const disable = useAction('disableTag')
  const setStatuses = useAction('setChannelStatuses')
  const [isEditing, setEditing] = useState(false)
  const { tag, channels, count } = group
  if (tag === null) return null
  const turn = (isOn: boolean) => {
    const changed = channels.filter(({ status }) => (status === 1) !== isOn).map(({ id }) => id)
    // Undo needs to know which channels changed, so the whole group must be loaded.
    const undo =
      channels.length === count && changed.length > 0
        ? () => void setStatuses.run({ body: { ids: changed, status: isOn ? 2 : 1 } })
        : undefined
    return (isOn ? enable : disable).run({ body: { tag } }, () =>
      toast(isOn ? t('channels.enabled', { name: tag }) : t('channels.disabled', { name: tag }), undo),
    )
  }
  return (
    <span className="flex flex-wrap gap-2">
      <Button isSmall icon={Power} isBusy={enable.isBusy} onClick={() => void turn(true)}>
        {t('channels.enable')}
      </Button>
      <Button isSmall icon={PowerOff} isBusy={disable.isBusy} onClick={() => void turn(false)}>
        {t('channels.disable')}
      </Button>
      <Button isSmall icon={Pencil} onClick={() => setEditing(true)}>
        {t('bulk.edit')}
      </Button>
      {isEditing ? (
        <BulkEdit channels={channels} onSelect={onSelect} onClose={() => setEditing(false)} />
      ) : null}
    </span>
  )
}

/** A table per tag. */
export function TagGroups({ groups, columns, selection, openId, isStale, onOpen }: GroupsProps) {
  const { t } = useTranslation()
  return groups.map(group => {
    const { tag, channels, count } = group
    const name = tag ?? t('channels.untagged')
    return (
      <section key={tag ?? ''} aria-label={name} className="border-b border-line last:border-b-0">
        <header className="flex flex-wrap items-center justify-between gap-2 bg-sunken px-4 py-2">
          <h2 className="min-w-0 truncate font-medium">
            {name}{' '}
            <span className="font-normal text-ink-3">
              {t('channels.in_group', { count, on: channels.filter(({ status }) => status === 1).length })}
            </span>
          </h2>
          <GroupActions group={group} onSelect={selection.onChange} />
        </header>
        <DataTable
          label={name}
          columns={columns}
          rows={channels}
          idOf={row => String(row.id)}
          nameOf={row => row.name}
          openId={openId}
          selection={selection}
          isStale={isStale}
          onOpen={onOpen}
        />
      </section>
    )
  })
}
