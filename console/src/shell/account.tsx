import { useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { call } from '../api/client.ts'
import { useSelf } from '../api/self.ts'
import { CircleUser, Keyboard, Languages, LogOut, Moon, Rocket, Sun, UserCog } from '../look/icons.ts'
import { Menu } from '../look/menu.tsx'
import { setPreferences, usePreferences } from '../look/preferences.ts'
import { useErrorText } from '../look/states.tsx'
import { toast } from '../look/toast.tsx'
import { useMedia } from '../look/use-media.ts'
import { speak } from '../texts/index.ts'

export function AccountMenu({
  onKeys,
  isShort = false,
}: {
  readonly onKeys: () => void
  readonly isShort?: boolean
}) {
  const { t } = useTranslation()
  const words = useErrorText()
  const self = useSelf()
  const client = useQueryClient()
  const navigate = useNavigate()
  const { theme, language } = usePreferences()
  const isSystemDark = useMedia('(prefers-color-scheme: dark)')
  const isDark = theme === 'dark' || (theme === 'system' && isSystemDark)
  const signOut = async () => {
    try {
      await call('logout', {}, { askSignIn: false })
    } catch (error) {
      return toast(words(error))
    }
    await navigate({ to: '/sign-in' })
    client.clear()
  }
  return (
    <Menu
      label={t('account.label')}
      align="start"
      trigger={
        <button
          type="button"
          aria-label={`${t('account.label')}: ${self.username}`}
          className="flex h-9 min-w-9 items-center gap-2 rounded-control px-2 hover:bg-sunken pointer-coarse:h-11 pointer-coarse:min-w-11"
        >
          <CircleUser size={16} aria-hidden className="shrink-0" />
          {isShort ? null : <span className="truncate">{self.display_name || self.username}</span>}
        </button>
      }
      items={[
        { label: t('nav.me'), icon: UserCog, onSelect: () => void navigate({ to: '/me' }) },
        { label: t('start.title'), icon: Rocket, onSelect: () => void navigate({ to: '/start' }) },
        {
          label: isDark ? t('account.light') : t('account.dark'),
          icon: isDark ? Sun : Moon,
          onSelect: () => setPreferences({ theme: isDark ? 'light' : 'dark' }),
        },
        {
          label: language === 'en' ? '简体中文' : 'English',
          icon: Languages,
          onSelect: () => void speak(language === 'en' ? 'zh-CN' : 'en'),
        },
        { label: t('keys.title'), icon: Keyboard, onSelect: onKeys },
        { label: t('account.sign_out'), icon: LogOut, onSelect: () => void signOut() },
      ]}
    />
  )
}
