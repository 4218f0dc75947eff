import type { FormEvent, ReactNode } from 'react'
import { useTranslation } from 'react-i18next'
import { Button } from './button.tsx'
import { Dialog } from './dialog.tsx'
import { FormError } from './form-error.tsx'

type FormDialogProps = {
  readonly title: string
  /** Label of the submit button. */
  readonly verb: string
  readonly isWide?: boolean
  /** Enables the submit button. */
  readonly isReady?: boolean
  readonly isBusy?: boolean
  /** An error that belongs to no field. */
  readonly fault?: string | undefined
  readonly onSubmit: (event: FormEvent) => unknown
  readonly onClose: () => void
  readonly children: ReactNode
}

/** A form in a dialog, with Cancel and submit buttons. */
export function FormDialog({
  title,
  verb,
  isWide = false,
  isReady = true,
  isBusy = false,
  fault,
  onSubmit,
  onClose,
  children,
}: FormDialogProps) {
  const { t } = useTranslation()
  const submit = (event: FormEvent) => {
    event.preventDefault()
    void onSubmit(event)
  }
  return (
    <Dialog title={title} isOpen isWide={isWide} onClose={onClose}>
      <form className="flex flex-col gap-4" onSubmit={submit}>
        {children}
        <FormError words={fault} />
        <div className="flex justify-end gap-2">
          <Button onClick={onClose}>{t('common.cancel')}</Button>
          <Button type="submit" kind="primary" isBusy={isBusy} disabled={!isReady}>
            {verb}
          </Button>
        </div>
      </form>
    </Dialog>
  )
}
