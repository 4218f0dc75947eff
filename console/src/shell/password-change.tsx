import { useNavigate } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { Logo } from '../look/logo.tsx'
import { PasswordForm } from '../pages/me/password-form.tsx'

/** Replaces the console until an imported password that breaks the rule for passwords is changed. */
export function PasswordChange() {
  const { t } = useTranslation()
  const navigate = useNavigate()
  return (
    <main className="grid min-h-dvh place-items-center p-4">
      <div className="flex w-full max-w-160 flex-col gap-5">
        <header className="flex items-center gap-3">
          <Logo size={28} />
          <h1 className="text-title font-semibold">{t('sign_in.change_password')}</h1>
        </header>
        <p className="text-ink-2">{t('sign_in.change_password_help')}</p>
        <div className="sheet">
          <PasswordForm onChanged={() => void navigate({ to: '/sign-in' })} />
        </div>
      </div>
    </main>
  )
}
