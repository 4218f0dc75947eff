import { Link, Outlet, useMatches } from '@tanstack/react-router'
import { useCallback, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { useCall } from '../api/query.ts'
import { useSelf } from '../api/self.ts'
import { IconButton, Key } from '../look/button.tsx'
import { classes } from '../look/classes.ts'
import { Dialog } from '../look/dialog.tsx'
import { moneyOfSpan } from '../look/format.ts'
import { Menu as MenuIcon, PanelLeftClose, PanelLeftOpen, Search } from '../look/icons.ts'
import { Logo } from '../look/logo.tsx'
import { setPreferences, usePreferences } from '../look/preferences.ts'
import { AccountMenu } from './account.tsx'
import { BottomBar } from './bottom-bar.tsx'
import { Forbidden } from './forbidden.tsx'
import { KeySheet } from './key-sheet.tsx'
import { useGlobalKeys } from './keys.ts'
import { NAVIGATION } from './navigation.ts'
import { OfflineBar } from './offline-bar.tsx'
import { Palette } from './palette.tsx'
import { PasswordChange } from './password-change.tsx'
import { RailEntries } from './rail.tsx'
import { SignInDialog } from './sign-in-dialog.tsx'
import { useReloadForOtherUser } from './user-change.ts'

function Brand({ isShort = false }: { readonly isShort?: boolean }) {
  return (
    <Link
      to="/"
      className="flex h-8 items-center gap-2 text-section font-semibold text-ink no-underline"
      aria-label="Sluice"
    >
      <Logo size={20} className="shrink-0" />
      {isShort ? null : 'Sluice'}
    </Link>
  )
}

/** Balance and version, below the menu. */
function RailFoot() {
  const { t } = useTranslation()
  const self = useSelf()
  const status = useCall('status', {}, { staleMs: 60_000 })
  return (
    <div className="px-4 text-label text-ink-3">
      <p>
        {self.unlimited_quota
          ? t('balance.unlimited')
          : t('balance.remaining', { amount: moneyOfSpan(self.quota) })}
      </p>
      {status.data ? <p>{t('common.version', { version: status.data.version })}</p> : null}
    </div>
  )
}

/** The role that the current page requires. */
function useNeededRole(): number {
  const path = useMatches().at(-1)?.fullPath ?? '/'
  const entry = NAVIGATION.flatMap(({ entries }) => entries).find(
    ({ to }) => to !== '/' && (path === to || path.startsWith(`${to}/`)),
  )
  return entry?.role ?? 0
}

/** An imported password that breaks the rule for passwords must be changed first. */
export function Shell() {
  const { id, password_change_required } = useSelf()
  useReloadForOtherUser(id)
  return password_change_required ? <PasswordChange /> : <Frame />
}

/** The frame of every page: menu, bars and dialogs. */
function Frame() {
  const { t } = useTranslation()
  const { role } = useSelf()
  const { isRailFolded } = usePreferences()
  const neededRole = useNeededRole()
  const [layer, setLayer] = useState<'palette' | 'keys' | 'menu'>()
  const openPalette = useCallback(() => setLayer('palette'), [])
  const openSheet = useCallback(() => setLayer('keys'), [])
  const close = () => setLayer(undefined)
  useGlobalKeys({ openPalette, openSheet })

  return (
    <div className="flex min-h-dvh flex-col lg:flex-row">
      <a
        href="#main"
        className="absolute -top-20 left-2 z-50 rounded-control bg-accent px-3 py-2 text-on-accent focus:top-2"
      >
        {t('nav.skip')}
      </a>
      <header
        className={classes(
          'sticky top-0 z-20 flex h-12 shrink-0 items-center gap-2 border-b border-line bg-sheet px-2',
          'lg:h-dvh lg:flex-col lg:items-stretch lg:gap-3 lg:border-r lg:border-b-0 lg:px-0 lg:py-3',
          isRailFolded ? 'lg:w-14' : 'lg:w-52',
        )}
      >
        <IconButton
          icon={MenuIcon}
          label={t('nav.open')}
          className="lg:hidden"
          onClick={() => setLayer('menu')}
        />
        <div className={classes('flex items-center', isRailFolded ? 'lg:justify-center' : 'lg:px-4')}>
          <Brand isShort={isRailFolded} />
        </div>
        <button
          type="button"
          onClick={openPalette}
          className={classes(
            'ml-auto flex h-8 items-center gap-2 rounded-control px-2 text-ink-2 hover:bg-sunken pointer-coarse:h-11 pointer-coarse:min-w-11 pointer-coarse:justify-center',
            isRailFolded ? 'lg:mx-2 lg:justify-center' : 'lg:mx-2 lg:border lg:border-edge',
          )}
        >
          <Search size={16} aria-hidden />
          <span className={isRailFolded ? 'sr-only' : 'sr-only lg:not-sr-only'}>{t('palette.open')}</span>
          {isRailFolded ? null : (
            <span className="ml-auto hidden lg:inline" aria-hidden="true">
              <Key>Ctrl K</Key>
            </span>
          )}
        </button>
        <div className="hidden grow overflow-y-auto lg:block">
          <RailEntries isFolded={isRailFolded} />
        </div>
        {isRailFolded ? null : (
          <div className="hidden lg:block">
            <RailFoot />
          </div>
        )}
        <div
          className={classes('flex items-center lg:justify-between lg:px-2', isRailFolded && 'lg:flex-col')}
        >
          <AccountMenu onKeys={openSheet} isShort={isRailFolded} />
          <IconButton
            icon={isRailFolded ? PanelLeftOpen : PanelLeftClose}
            label={isRailFolded ? t('nav.expand') : t('nav.collapse')}
            className="max-lg:hidden"
            onClick={() => setPreferences({ isRailFolded: !isRailFolded })}
          />
        </div>
      </header>
      <main id="main" tabIndex={-1} className="min-w-0 grow pb-16 outline-none md:pb-0">
        <OfflineBar />
        {role >= neededRole ? <Outlet /> : <Forbidden neededRole={neededRole} />}
      </main>
      <BottomBar onMore={() => setLayer('menu')} />
      <Palette isOpen={layer === 'palette'} onClose={close} />
      <KeySheet isOpen={layer === 'keys'} onClose={close} />
      <Dialog title={t('nav.label')} isOpen={layer === 'menu'} onClose={close}>
        <RailEntries onChoose={close} />
        <RailFoot />
      </Dialog>
      <SignInDialog />
    </div>
  )
}
