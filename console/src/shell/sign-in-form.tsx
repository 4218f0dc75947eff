import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { call } from '../api/client.ts'
import type { User } from '../api/contract.ts'
import { ApiError } from '../api/errors.ts'
import { Button } from '../look/button.tsx'
import { Field, TextInput } from '../look/field.tsx'
import { FormError } from '../look/form-error.tsx'
import { useErrorText } from '../look/states.tsx'
import { useCountdown } from '../look/use-countdown.ts'
import { announceSignIn } from './user-change.ts'

type SignInFormProps = { readonly username: string; readonly onDone: (self: User) => void }

/** The sign-in form. An error never says which of the two fields was wrong. */
export function SignInForm({ username: first, onDone }: SignInFormProps) {
  const { t } = useTranslation()
  const words = useErrorText()
  const [username, setUsername] = useState(first)
  const [password, setPassword] = useState('')
  const [fault, setFault] = useState<unknown>()
  const [isBusy, setBusy] = useState(false)
  const [blockedUntil, setBlockedUntil] = useState(0)
  const blockedS = useCountdown(blockedUntil)

  const signIn = async () => {
    setBusy(true)
    setFault(undefined)
    try {
      const self = await call('login', { body: { username, password } }, { askSignIn: false })
      announceSignIn(self.id)
      onDone(self)
    } catch (error) {
      setFault(error)
      if (error instanceof ApiError && error.status === 429)
        setBlockedUntil(Date.now() + (error.retryAfterS ?? 5) * 1000)
      setBusy(false)
    }
  }

  return (
    <form
      className="flex flex-col gap-4"
      onSubmit={event => {
        event.preventDefault()
        void signIn()
      }}
    >
      <Field label={t('sign_in.username')}>
        {wiring => (
          <TextInput
            {...wiring}
            name="username"
            autoComplete="username"
            autoCapitalize="none"
            spellCheck={false}
            value={username}
            onChange={event => setUsername(event.target.value)}
          />
        )}
      </Field>
      <Field label={t('sign_in.password')}>
        {wiring => (
          <TextInput
            {...wiring}
            name="password"
            type="password"
            autoComplete="current-password"
            autoFocus
            value={password}
            onChange={event => setPassword(event.target.value)}
          />
        )}
      </Field>
      <FormError
        words={
          blockedS > 0
            ? t('sign_in.blocked', { seconds: blockedS })
            : fault === undefined
              ? undefined
              : words(fault)
        }
      />
      <Button type="submit" kind="primary" isBusy={isBusy} disabled={blockedS > 0}>
        {t('sign_in.submit')}
      </Button>
    </form>
  )
}
