import { useTranslation } from 'react-i18next'
import type { Suspense } from '../../api/contract.ts'
import { useContractForm } from '../../api/form.ts'
import { Button } from '../../look/button.tsx'
import { Dialog } from '../../look/dialog.tsx'
import { FormFault } from '../../look/fault.tsx'
import { Field, Radios, TextInput } from '../../look/field.tsx'
import { moneyOfLedger } from '../../look/format.ts'
import { toast } from '../../look/toast.tsx'

type Values = { action: 'write_off' | 'charge'; reason: string }

/** A doubt is decided once, with a reason. */
export function CloseDoubt({ doubt, onClose }: { readonly doubt: Suspense; readonly onClose: () => void }) {
  const { t } = useTranslation()
  const { form, submit, errorOf, isBusy, fault } = useContractForm<'closeSuspense', Values>({
    route: 'closeSuspense',
    defaults: { action: 'write_off', reason: '' },
    toInput: body => ({ params: { id: doubt.id }, body }),
    onDone: () => {
      toast(t('ledger.decided'))
      onClose()
    },
  })
  return (
    <Dialog title={t('ledger.decide', { amount: moneyOfLedger(doubt.cost) })} isOpen onClose={onClose}>
      <form className="flex flex-col gap-4" onSubmit={event => void submit(event)}>
        <Radios
          legend={t('ledger.how')}
          value={form.watch('action')}
          onChange={value => form.setValue('action', value)}
          options={[
            { value: 'write_off', label: t('ledger.write_off'), help: t('ledger.write_off_help') },
            { value: 'charge', label: t('ledger.charge'), help: t('ledger.charge_help') },
          ]}
        />
        <Field label={t('users.reason')} error={errorOf('reason')} help={t('users.reason_help')}>
          {wiring => <TextInput {...wiring} {...form.register('reason')} />}
        </Field>
        <FormFault words={fault} />
        <div className="flex justify-end gap-2">
          <Button onClick={onClose}>{t('common.cancel')}</Button>
          <Button type="submit" kind="primary" isBusy={isBusy} disabled={form.watch('reason').trim() === ''}>
            {t('needs.decide')}
          </Button>
        </div>
      </form>
    </Dialog>
  )
}
