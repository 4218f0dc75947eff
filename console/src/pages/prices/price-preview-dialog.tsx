import type { ReactNode } from 'react'
import { FormDialog } from '../../look/form-dialog.tsx'
import { PriceChanges } from './price-changes.tsx'
import type { usePricePreview } from './use-price-preview.ts'

type PricePreviewDialogProps = {
  readonly title: string
  readonly trial: ReturnType<typeof usePricePreview>
  /** Whether the input is complete. */
  readonly isReady: boolean
  readonly isBusy: boolean
  readonly onClose: () => void
  readonly children: ReactNode
}

/** The form of a bulk price change, with the preview below it. */
export const PricePreviewDialog = ({
  title,
  trial,
  isReady,
  isBusy,
  onClose,
  children,
}: PricePreviewDialogProps) => (
  <FormDialog
    title={title}
    verb={trial.verb}
    isWide
    isReady={isReady && trial.hasWork}
    isBusy={isBusy}
    onSubmit={trial.submit}
    onClose={onClose}
  >
    {children}
    {trial.results ? <PriceChanges results={trial.results} /> : null}
  </FormDialog>
)
