import { type ReactNode, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { Button } from './button.tsx'
import { Dialog } from './dialog.tsx'
import { Field, TextInput } from './field.tsx'
import { ErrorCard } from './states.tsx'

type ConfirmProps = {
  readonly title: string
  /** What the action does. */
  readonly effect: ReactNode
  readonly verb: string
  /** `primary` for an action that can be undone. */
  readonly kind?: 'danger' | 'primary'
  /** Text that the user types to confirm a far-reaching action. */
  readonly typed?: string
  /** Username whose password is required; `onConfirm` receives it. */
  readonly passwordOf?: string
  readonly onConfirm: (password: string) => Promise<unknown>
  readonly onClose: () => void
}

/** Confirms an action. The focus starts on Cancel. */
export function Confirm({
  title,
  effect,
  verb,
  kind = 'danger',
  typed,
  passwordOf,
  onConfirm,
  onClose,
}: ConfirmProps) {
  const { t } = useTranslation()
  const [text, setText] = useState('')
  const [password, setPassword] = useState('')
  const [error, setError] = useState<unknown>()
  const [isBusy, setBusy] = useState(false)
  const isTyped = typed === undefined || text.trim() === typed
  const isReady = isTyped && (passwordOf === undefined || password !== '')
  const confirm = async () => {
    setBusy(true)
    setError(undefined)
    try {
      await onConfirm(password)
      onClose()
    } catch (fault) {
      setError(fault)
      setBusy(false)
    }
  }
  return (
    <Dialog title={title} isOpen onClose={onClose}>
      <div className="text-ink-2">{effect}</div>
      {typed === undefined ? null : (
        <Field label={t('confirm.type', { name: typed })}>
          {wiring => (
            <TextInput
              {...wiring}
              autoComplete="off"
              value={text}
              onChange={event => setText(event.target.value)}
            />
          )}
        </Field>
      )}
      {passwordOf === undefined ? null : (
        <form
          onSubmit={event => {
            event.preventDefault()
            if (isReady) void confirm()
          }}
        >
          <input type="text" name="username" autoComplete="username" value={passwordOf} readOnly hidden />
          <Field label={t('confirm.password')}>
            {wiring => (
              <TextInput
                {...wiring}
                type="password"
                autoComplete="current-password"
                value={password}
                onChange={event => setPassword(event.target.value)}
              />
            )}
          </Field>
        </form>
      )}
      {error ? <ErrorCard error={error} /> : null}
      <div className="flex justify-end gap-2">
        <Button autoFocus onClick={onClose}>
          {t('common.cancel')}
        </Button>
        <Button kind={kind} isBusy={isBusy} disabled={!isReady} onClick={() => void confirm()}>
          {verb}
        </Button>
      </div>
    </Dialog>
  )
}
