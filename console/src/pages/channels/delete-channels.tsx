import { useNavigate } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import type { Channel } from '../../api/contract.ts'
import { useCall, useRouteMutation } from '../../api/query.ts'
import { Button } from '../../look/button.tsx'
import { Confirm } from '../../look/confirm.tsx'
import { toast } from '../../look/toast.tsx'
import { useAction } from '../../look/use-action.ts'

const MAX_READ = 500

/** Models that no other enabled channel serves; undefined while unknown. */
function useOrphans(channels: readonly Channel[]): readonly string[] | undefined {
  const others = useCall('listChannels', { query: { status: 'enabled', page_size: MAX_READ } })
  if (!others.data || others.data.total > MAX_READ) return undefined
  const deletedIds = new Set(channels.map(({ id }) => id))
  const otherModels = new Set(
    others.data.items.flatMap(item => ('id' in item && !deletedIds.has(item.id) ? item.models : [])),
  )
  const served = channels.filter(({ status }) => status === 1).flatMap(({ models }) => models)
  return [...new Set(served)].filter(model => !otherModels.has(model))
}

type DeleteProps = {
  readonly channels: readonly Channel[]
  readonly onClose: () => void
  readonly onDone?: () => void
}

export function DeleteChannels({ channels, onClose, onDone }: DeleteProps) {
  const { t } = useTranslation()
  const navigate = useNavigate()
  const orphans = useOrphans(channels)
  const remove = useRouteMutation('deleteChannels')
  const turnOff = useAction('setChannelStatuses')
  const ids = channels.map(({ id }) => id)
  const [first] = channels
  const name = channels.length === 1 && first ? first.name : t('channels.several', { count: channels.length })
  return (
    <Confirm
      title={t('channels.delete_title', { name })}
      verb={t('common.delete')}
      typed={channels.length === 1 ? name : String(channels.length)}
      onClose={onClose}
      onConfirm={async () => {
        await remove.mutateAsync({ body: { ids } })
        toast(t('channels.deleted', { name }))
        onDone?.()
        await navigate({ to: '/channels', search: true })
      }}
      effect={
        <div className="flex flex-col gap-3">
          <p>{t('channels.delete_effect')}</p>
          {orphans && orphans.length > 0 ? (
            <div className="text-warn">
              <p>{t('channels.delete_orphans', { count: orphans.length })}</p>
              <p className="max-h-32 overflow-y-auto font-mono text-code">{orphans.join(', ')}</p>
            </div>
          ) : null}
          <Button
            className="self-start"
            onClick={() => void turnOff.run({ body: { ids, status: 2 } }, onClose)}
          >
            {t('channels.disable_instead')}
          </Button>
        </div>
      }
    />
  )
}
