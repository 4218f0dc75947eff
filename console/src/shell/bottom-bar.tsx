import { Link } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { useIsAdmin, useSelf } from '../api/self.ts'
import { Menu as MenuIcon } from '../look/icons.ts'
import { entriesFor } from './navigation.ts'

/** The bottom navigation on phones: four pages and the menu. */
export function BottomBar({ onMore }: { readonly onMore: () => void }) {
  const { t } = useTranslation()
  const { role } = useSelf()
  const names = ['overview', 'usage', useIsAdmin() ? 'channels' : 'tokens', 'playground']
  const entries = entriesFor(role).filter(({ name }) => names.includes(name))
  const look = 'flex min-h-14 flex-auto flex-col items-center justify-center gap-1 text-label no-underline'
  return (
    <nav
      aria-label={t('nav.quick')}
      className="fixed inset-x-0 bottom-0 z-20 flex border-t border-line bg-sheet pb-[env(safe-area-inset-bottom)] md:hidden"
    >
      {entries.map(({ to, name, icon: Icon }) => (
        <Link
          key={to}
          to={to}
          activeOptions={{ exact: to === '/', includeSearch: false }}
          activeProps={{ className: 'text-accent' }}
          inactiveProps={{ className: 'text-ink-2' }}
          className={look}
        >
          <Icon size={18} aria-hidden />
          {t(`nav.${name}`)}
        </Link>
      ))}
      <button type="button" onClick={onMore} className={`${look} text-ink-2`}>
        <MenuIcon size={18} aria-hidden />
        {t('nav.more')}
      </button>
    </nav>
  )
}
