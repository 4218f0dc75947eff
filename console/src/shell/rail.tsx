import { Link } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { useSelf } from '../api/self.ts'
import { classes } from '../look/classes.ts'
import { groupsFor } from './navigation.ts'

type RailProps = { readonly isFolded?: boolean; readonly onChoose?: () => void }

/** The entries of the menu. */
export function RailEntries({ isFolded = false, onChoose }: RailProps) {
  const { t } = useTranslation()
  const { role } = useSelf()
  return (
    <nav aria-label={t('nav.label')} className="flex flex-col gap-3 px-2">
      {groupsFor(role).map(group => (
        <div key={group.name} className={group.name === 'system' ? 'border-t border-line pt-3' : undefined}>
          {isFolded || group.name === 'system' ? null : (
            <p id={`group-${group.name}`} className="px-2 pb-1 text-label text-ink-3">
              {t(`nav.group.${group.name}`)}
            </p>
          )}
          <ul aria-label={t(`nav.group.${group.name}`)} className="flex flex-col">
            {group.entries.map(({ to, name, icon: Icon }) => (
              <li key={to}>
                <Link
                  to={to}
                  activeOptions={{ exact: to === '/', includeSearch: false }}
                  onClick={() => onChoose?.()}
                  aria-label={isFolded ? t(`nav.${name}`) : undefined}
                  title={isFolded ? t(`nav.${name}`) : undefined}
                  activeProps={{
                    className: 'bg-accent-soft text-ink font-medium shadow-[inset_2px_0_0_var(--accent)]',
                  }}
                  inactiveProps={{ className: 'text-ink-2 hover:bg-sunken hover:text-ink' }}
                  className={classes(
                    'flex h-8 items-center gap-2.5 rounded-control px-2 no-underline pointer-coarse:h-11',
                    isFolded && 'justify-center',
                  )}
                >
                  <Icon size={16} aria-hidden className="shrink-0" />
                  {isFolded ? null : t(`nav.${name}`)}
                </Link>
              </li>
            ))}
          </ul>
        </div>
      ))}
    </nav>
  )
}
