import { useTranslation } from 'react-i18next'
import type { Suspense } from '../../api/contract.ts'
import { useContractForm } from '../../api/form.ts'
import { Radios } from '../../look/field.tsx'
import { moneyOfLedger } from '../../look/format.ts'
import { ReasonDialog } from '../../look/reason-dialog.tsx'
import { toast } from '../../look/toast.tsx'

type Values = { action: 'write_off' | 'charge'; reason: string }

/** Resolves an unresolved charge once, with a reason. */
export function ResolveCharge({
  doubt: charge,
  onClose,
}: {
  readonly doubt: Suspense
  readonly onClose: () => void
}) {
  const { t } = useTranslation()
  const form = useContractForm<'closeSuspense', Values>({
    route: 'closeSuspense',
    defaults: { action: 'write_off', reason: '' },
    toInput: body => ({ params: { id: charge.id }, body }),
    onDone: () => {
      toast(t('ledger.resolved'))
      onClose()
    },
  })
  return (
    <ReasonDialog
      title={t('ledger.resolve_title', { amount: moneyOfLedger(charge.cost) })}
      verb={t('attention.resolve')}
      help={t('users.reason_help')}
      form={form}
      onClose={onClose}
    >
      <Radios
        legend={t('ledger.resolution')}
        value={form.form.watch('action')}
        onChange={value => form.form.setValue('action', value)}
        options={[
          { value: 'write_off', label: t('ledger.write_off'), help: t('ledger.write_off_help') },
          { value: 'charge', label: t('ledger.charge'), help: t('ledger.charge_help') },
        ]}
      />
    </ReasonDialog>
  )
}
