import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { useContractForm } from '../../api/form.ts'
import { ROLE, useIsRoot } from '../../api/self.ts'
import { Button } from '../../look/button.tsx'
import { Dialog } from '../../look/dialog.tsx'
import { Choice, Field, TextInput } from '../../look/field.tsx'
import { FormDialog } from '../../look/form-dialog.tsx'
import { unitsOfUsd } from '../../look/format.ts'
import { Secret } from '../../look/secret.tsx'
import { toast } from '../../look/toast.tsx'

type Values = { username: string; display_name: string; password: string; role: string; balance: string }

const ALPHABET = 'abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789'
const LENGTH = 20

/**
 * A random password. 256 is not a multiple of the alphabet's length, so bytes that would bias the result are
 * skipped.
 */
export function newPassword(): string {
  const fit = 256 - (256 % ALPHABET.length)
  let text = ''
  while (text.length < LENGTH)
    for (const byte of crypto.getRandomValues(new Uint8Array(LENGTH)))
      if (byte < fit && text.length < LENGTH) text += ALPHABET[byte % ALPHABET.length]
  return text
}

export function NewUser() {
  const { t } = useTranslation()
  const navigate = useNavigate()
  const isRoot = useIsRoot()
  const [password, setPassword] = useState<string>()
  const [created, setCreated] = useState<{ username: string; password: string }>()
  const close = () => void navigate({ to: '/users', search: true })
  const { form, submit, errorOf, isBusy, fault } = useContractForm<'createUser', Values>({
    route: 'createUser',
    defaults: { username: '', display_name: '', password: '', role: String(ROLE.user), balance: '' },
    toInput: values => ({
      body: {
        username: values.username,
        password: values.password,
        display_name: values.display_name,
        role: Number(values.role) as 1 | 10,
        quota: unitsOfUsd(Number(values.balance)),
      },
    }),
    onDone: (_user, values) => {
      if (values.password === password) return setCreated(values)
      toast(t('users.created', { name: values.username }))
      close()
    },
    names: { quota: 'balance' },
  })
  if (created)
    return (
      <Dialog
        title={t('users.created', { name: created.username })}
        isOpen
        closesByButtonOnly
        onClose={close}
      >
        <Secret label={t('sign_in.password')} value={created.password} />
        <Button kind="primary" className="self-end" onClick={close}>
          {t('tokens.done')}
        </Button>
      </Dialog>
    )
  const balance = Number(form.watch('balance'))
  return (
    <FormDialog
      title={t('users.add')}
      verb={t('users.add')}
      isBusy={isBusy}
      fault={fault}
      onSubmit={submit}
      onClose={close}
    >
      <Field label={t('users.username')} error={errorOf('username')}>
        {wiring => <TextInput {...wiring} {...form.register('username')} autoComplete="off" />}
      </Field>
      <Field label={t('users.display_name')} error={errorOf('display_name')}>
        {wiring => <TextInput {...wiring} {...form.register('display_name')} autoComplete="off" />}
      </Field>
      <Field label={t('sign_in.password')} error={errorOf('password')} help={t('users.password_help')}>
        {wiring => (
          <span className="flex gap-2">
            <TextInput
              {...wiring}
              {...form.register('password')}
              type="password"
              autoComplete="new-password"
            />
            <Button
              onClick={() => {
                const generated = newPassword()
                setPassword(generated)
                form.setValue('password', generated)
              }}
            >
              {t('users.generate')}
            </Button>
          </span>
        )}
      </Field>
      <Field label={t('users.role')} error={errorOf('role')}>
        {wiring => (
          <Choice {...wiring} {...form.register('role')}>
            <option value={ROLE.user}>{t('role.user')}</option>
            <option value={ROLE.admin} disabled={!isRoot}>
              {t('role.admin')}
            </option>
          </Choice>
        )}
      </Field>
      <Field
        label={t('users.start_balance')}
        error={errorOf('balance')}
        help={balance > 0 ? undefined : <span className="text-warn">{t('users.zero_balance')}</span>}
      >
        {wiring => (
          <TextInput
            {...wiring}
            {...form.register('balance')}
            type="number"
            min={0}
            step="any"
            placeholder="0"
          />
        )}
      </Field>
    </FormDialog>
  )
}
