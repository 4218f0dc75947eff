import { useQueryClient } from '@tanstack/react-query'
import { useTranslation } from 'react-i18next'
import type { User } from '../api/contract.ts'
import { selfQuery, useSelf } from '../api/self.ts'
import { signedInAgain, useIsSignInNeeded } from '../api/session.ts'
import { Dialog } from '../look/dialog.tsx'
import { SignInForm } from './sign-in-form.tsx'

/** Renews an expired session in a dialog. Typed text is kept and the call is repeated. */
export function SignInDialog() {
  const { t } = useTranslation()
  const self = useSelf()
  const client = useQueryClient()
  const onDone = (user: User) => {
    // Another user must not repeat the calls of this one, nor see the loaded data.
    if (user.id !== self.id) return location.reload()
    client.setQueryData(selfQuery.queryKey, user)
    signedInAgain()
  }
  const isNeeded = useIsSignInNeeded()
  return (
    <Dialog title={t('sign_in.again')} isOpen={isNeeded} onClose={() => {}} closesByButtonOnly>
      <p className="text-ink-2">{t('sign_in.again_help')}</p>
      <SignInForm username={self.username} onDone={onDone} />
    </Dialog>
  )
}
