import type { ReactNode } from 'react'
import { FormDialog } from '../../look/form-dialog.tsx'
import { PriceChanges } from './price-changes.tsx'
import type { usePriceTrial } from './use-price-preview.ts'

type PriceTrialDialogProps = {
  readonly title: string
  readonly trial: ReturnType<typeof usePriceTrial>
  /** Whether there is enough to ask with. */
  readonly isReady: boolean
  readonly isBusy: boolean
  readonly onClose: () => void
  readonly children: ReactNode
}

/** What is to be changed, and below it what that comes to once it was asked. */
export const PriceTrialDialog = ({
  title,
  trial,
  isReady,
  isBusy,
  onClose,
  children,
}: PriceTrialDialogProps) => (
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
