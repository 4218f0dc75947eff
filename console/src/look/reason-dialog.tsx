import type { ReactNode } from 'react'
import type { Path } from 'react-hook-form'
import { useTranslation } from 'react-i18next'
import type { useSavingForm } from '../api/form.ts'
import { Button } from './button.tsx'
import { Dialog } from './dialog.tsx'
import { FormFault } from './fault.tsx'
import { Field, TextInput } from './field.tsx'

type ReasonDialogProps<Values extends { reason: string }> = {
  readonly title: string
  readonly verb: string
  readonly help: string
  readonly form: ReturnType<typeof useSavingForm<Values>>
  readonly onClose: () => void
  /** What will happen, and what there is to choose. */
  readonly children: ReactNode
}

/** Something about money that is done once, and never without a reason. */
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
    <Dialog title={title} isOpen onClose={onClose}>
      <form className="flex flex-col gap-4" onSubmit={event => void submit(event)}>
        {children}
        <Field label={t('users.reason')} error={errorOf(name)} help={help}>
          {wiring => <TextInput {...wiring} {...form.register(name)} />}
        </Field>
        <FormFault words={fault} />
        <div className="flex justify-end gap-2">
          <Button onClick={onClose}>{t('common.cancel')}</Button>
          <Button
            type="submit"
            kind="primary"
            isBusy={isBusy}
            disabled={String(form.watch(name)).trim() === ''}
          >
            {verb}
          </Button>
        </div>
      </form>
    </Dialog>
  )
}
