import { useTranslation } from 'react-i18next'
import { ApiError } from '../../api/errors.ts'
import { useSavingForm, validateBody } from '../../api/form.ts'
import { useRouteMutation } from '../../api/query.ts'
import { useSelf } from '../../api/self.ts'
import { Button } from '../../look/button.tsx'
import { Checkbox, Field, TextInput } from '../../look/field.tsx'
import { FormError } from '../../look/form-error.tsx'
import { toast } from '../../look/toast.tsx'

type Values = {
  original_password: string
  password: string
  confirm_password: string
  revoke_access_tokens: boolean
}

const FIELDS = [
  ['original_password', 'current-password'],
  ['password', 'new-password'],
  ['confirm_password', 'new-password'],
] as const

/** A new password ends every session, so the next call opens the sign-in dialog. */
export function PasswordForm({ onChanged }: { readonly onChanged?: () => void }) {
  const { t } = useTranslation()
  const { username } = useSelf()
  const update = useRouteMutation('updateSelf')
  const { form, submit, errorOf, isBusy, fault } = useSavingForm<Values>({
    defaults: { original_password: '', password: '', confirm_password: '', revoke_access_tokens: false },
    save: async ({ original_password, password, confirm_password, revoke_access_tokens }) => {
      const refuse = (path: string, message: string) => {
        throw new ApiError({ status: 400, code: 'invalid_request', message, errors: [{ path, message }] })
      }
      if (password !== confirm_password) refuse('confirm_password', t('me.different'))
      const body = { original_password, password, revoke_access_tokens }
      await validateBody('updateSelf', body)
      await update.mutateAsync({ body }).catch(error => {
        if (error instanceof ApiError && error.code === 'wrong_password')
          refuse('original_password', t('fault.wrong_password'))
        throw error
      })
      form.reset()
      toast(t('me.password_changed'))
      onChanged?.()
    },
  })
  return (
    <section className="px-4 py-3" aria-labelledby="password">
      <h3 id="password" className="font-semibold">
        {t('sign_in.password')}
      </h3>
      <p className="text-label text-ink-3">{t('me.password_help')}</p>
      <form className="flex max-w-[640px] flex-col gap-3 pt-3" onSubmit={event => void submit(event)}>
        <input type="text" name="username" autoComplete="username" value={username} readOnly hidden />
        <div className="grid gap-3 sm:grid-cols-3">
          {FIELDS.map(([name, autoComplete]) => (
            <Field key={name} label={t(`me.${name}`)} error={errorOf(name)}>
              {wiring => (
                <TextInput {...wiring} {...form.register(name)} type="password" autoComplete={autoComplete} />
              )}
            </Field>
          ))}
        </div>
        <Checkbox {...form.register('revoke_access_tokens')} label={t('me.revoke_access_tokens')} />
        <FormError words={fault} />
        <Button type="submit" className="self-start" isBusy={isBusy}>
          {t('me.change_password')}
        </Button>
      </form>
    </section>
  )
}
