import type { TFunction } from 'i18next'
import type { User } from '../../api/contract.ts'
import { ROLE } from '../../api/self.ts'
import { count, moneyOfSpan } from '../../look/format.ts'
import { Moment } from '../../look/moment.tsx'
import { StatusBadge } from '../../look/status-badge.tsx'
import type { Column } from '../../look/table-props.ts'

export const roleText = (t: TFunction, role: number) =>
  role >= ROLE.root ? t('role.root') : role >= ROLE.admin ? t('role.admin') : t('role.user')

export const userColumns = (t: TFunction): readonly Column<User>[] => [
  {
    id: 'name',
    header: t('users.username'),
    place: 'title',
    cell: ({ username, display_name }) => (
      <span className="block truncate">
        <span className="font-medium">{username}</span>
        {display_name && display_name !== username ? (
          <span className="text-ink-3"> {display_name}</span>
        ) : null}
      </span>
    ),
  },
  { id: 'role', header: t('users.role'), place: 'note', cell: ({ role }) => roleText(t, role) },
  {
    id: 'state',
    header: t('users.state'),
    place: 'state',
    cell: ({ status }) => <StatusBadge state={status === 1 ? 'enabled' : 'disabled'} />,
  },
  {
    id: 'balance',
    header: t('users.balance'),
    isRight: true,
    place: 'figure',
    cell: ({ unlimited_quota, quota }) => (unlimited_quota ? t('balance.none') : moneyOfSpan(quota)),
  },
  {
    id: 'spent',
    header: t('users.spend'),
    isRight: true,
    fromPx: 900,
    cell: ({ used_quota }) => moneyOfSpan(used_quota),
  },
  {
    id: 'requests',
    header: t('users.requests'),
    isRight: true,
    fromPx: 1100,
    cell: ({ request_count }) => count(request_count),
  },
  {
    id: 'seen',
    header: t('users.last_login'),
    fromPx: 900,
    cell: ({ last_login_time }) => <Moment at={last_login_time} />,
  },
]
