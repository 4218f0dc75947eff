import { useQueryClient } from '@tanstack/react-query'
import { useNavigate, useRouter, useSearch } from '@tanstack/react-router'
import { useEffect } from 'react'
import { useTranslation } from 'react-i18next'
import type { User } from '../api/contract.ts'
import { useCall } from '../api/query.ts'
import { selfQuery } from '../api/self.ts'
import { Button } from '../look/button.tsx'
import { Logo } from '../look/logo.tsx'
import { usePreferences } from '../look/preferences.ts'
import { SignInForm } from '../shell/sign-in-form.tsx'
import { speak } from '../texts/index.ts'

/** Redirects only to paths of this site. */
const isOwn = (to: string | undefined): to is string => to !== undefined && /^\/(?!\/)/.test(to)

export function SignIn() {
  const { t } = useTranslation()
  const { to } = useSearch({ from: '/sign-in' })
  const navigate = useNavigate()
  const router = useRouter()
  const client = useQueryClient()
  const { language } = usePreferences()
  const command = useCall('status', {}, { staleMs: 60_000 }).data?.reset_command
  useEffect(() => {
    document.title = `${t('sign_in.submit')} · Sluice`
  }, [t])
  const goOn = (self: User) => {
    client.setQueryData(selfQuery.queryKey, self)
    if (isOwn(to)) router.history.push(to)
    else void navigate({ to: '/' })
  }
  return (
    <main className="grid min-h-dvh place-items-center p-4">
      <div className="flex w-full max-w-90 flex-col gap-5">
        <header className="flex items-center gap-3">
          <Logo size={28} />
          <h1 className="text-title font-semibold">{t('sign_in.title')}</h1>
        </header>
        <div className="sheet p-5">
          <SignInForm username="root" onDone={goOn} />
        </div>
        <div className="flex flex-col gap-2 text-label text-ink-3">
          <p>{t('sign_in.where')}</p>
          {command ? (
            <>
              <p>{command.startsWith('./') ? t('sign_in.reset_in_checkout') : t('sign_in.reset')}</p>
              <code className="font-mono text-code break-words text-ink-2">{command}</code>
              {command.includes('DIR') ? <p>{t('sign_in.data_directory')}</p> : null}
            </>
          ) : null}
        </div>
        <Button
          kind="quiet"
          className="-ml-3 self-start"
          onClick={() => void speak(language === 'en' ? 'zh-CN' : 'en')}
        >
          {language === 'en' ? '简体中文' : 'English'}
        </Button>
      </div>
    </main>
  )
}
