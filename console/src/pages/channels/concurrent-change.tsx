import { Link } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { useCall } from '../../api/query.ts'
import { Button } from '../../look/button.tsx'
import { fromNow } from '../../look/format.ts'
import { LIMITS } from '../../look/limit-fields.tsx'
import type { ChannelValues } from './channel-values.ts'

type Name = keyof ChannelValues

/** The fields that differ from the given values. */
export const changedFields = (before: ChannelValues, now: ChannelValues): readonly Name[] =>
  (Object.keys(before) as Name[]).filter(name => JSON.stringify(before[name]) !== JSON.stringify(now[name]))

const LIMIT_NAMES: ReadonlySet<Name> = new Set(LIMITS)

/** Reports that another user has saved the channel, and offers to load the changes. */
export function ConcurrentChange({
  id,
  fields,
  onTake,
}: {
  readonly id: number
  readonly fields: readonly Name[]
  readonly onTake: () => void
}) {
  const { t, i18n } = useTranslation()
  const target = `channel:${id}`
  const { data } = useCall('listAudit', { query: { target, action: 'channel.update', page_size: 1 } })
  const last = data?.items[0]
  const words = fields.map(name => {
    const key = LIMIT_NAMES.has(name) ? `limits.${name}` : `editor.${name}`
    return i18n.exists(key) ? t(key as 'editor.priority') : name
  })
  return (
    <div role="status" className="mb-4 flex flex-wrap items-center gap-2 rounded-control bg-warn-soft p-3">
      <p className="min-w-60 grow">
        {t('editor.changed_elsewhere', {
          who: last?.actor_name || t('editor.another_user'),
          when: last ? fromNow(last.time) : '',
          fields: words.join(', '),
        })}{' '}
        <span className="text-ink-2">{t('editor.changed_elsewhere_help')}</span>
      </p>
      <Button isSmall onClick={onTake}>
        {t('editor.load_changes')}
      </Button>
      <Link to="/audit" search={{ target }} target="_blank" className="py-1">
        {t('channels.history')}
      </Link>
    </div>
  )
}
