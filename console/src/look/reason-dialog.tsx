import type { ReactNode } from 'react'
import type { Path } from 'react-hook-form'
import { useTranslation } from 'react-i18next'
import type { useSavingForm } from '../api/form.ts'
import { Field, TextInput } from './field.tsx'
import { FormDialog } from './form-dialog.tsx'

type ReasonDialogProps<Values extends { reason: string }> = {
  readonly title: string
  readonly verb: string
  readonly help: string
  readonly form: ReturnType<typeof useSavingForm<Values>>
  readonly onClose: () => void
  /** Explains the action and offers its options. */
  readonly children: ReactNode
}

/** A dialog for a one-time change of money, which requires a reason. */
export function ReasonDialog<Values extends { reason: string }>({
  title,
  verb,
  help,
  form: { form, submit, errorOf, isBusy, fault },
  onClose,
  children,
}: ReasonDialogProps<Values>) {
  const { t } = useTranslation()
  const name = 'reason' as Path<Values>
  return (
    <FormDialog
      title={title}
      verb={verb}
      isReady={String(form.watch(name)).trim() !== ''}
      isBusy={isBusy}
      fault={fault}
      onSubmit={submit}
      onClose={onClose}
    >
      {children}
      <Field label={t('users.reason')} error={errorOf(name)} help={help}>
        {wiring => <TextInput {...wiring} {...form.register(name)} />}
      </Field>
    </FormDialog>
  )
}
