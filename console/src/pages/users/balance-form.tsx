import { useLocation } from '@tanstack/react-router'
import { useEffect } from 'react'
import { useTranslation } from 'react-i18next'
import type { User } from '../../api/contract.ts'
import { useContractForm } from '../../api/form.ts'
import { Button } from '../../look/button.tsx'
import { AmountInput, Choice, Field, TextInput } from '../../look/field.tsx'
import { FormError } from '../../look/form-error.tsx'
import { moneyOfSpan, unitsOfUsd } from '../../look/format.ts'
import { Section } from '../../look/panel.tsx'
import { toast } from '../../look/toast.tsx'

type Values = { mode: 'add' | 'subtract' | 'override'; amount: string; reason: string }

const AFTER = {
  add: (before: number, units: number) => before + units,
  subtract: (before: number, units: number) => before - units,
  override: (_before: number, units: number) => units,
} as const

/** Adjusts credit with a reason and a preview. The gateway writes a ledger entry. */
export function BalanceForm({ user }: { readonly user: User }) {
  const { t } = useTranslation()
  const { form, submit, errorOf, isBusy, fault } = useContractForm<'manageUser', Values>({
    route: 'manageUser',
    defaults: { mode: 'add', amount: '', reason: '' },
    toInput: ({ mode, amount, reason }) => ({
      body: { id: user.id, action: 'add_quota', mode, value: unitsOfUsd(Number(amount)), reason },
    }),
    onDone: () => {
      form.reset()
      toast(t('users.balance_changed', { name: user.username }))
    },
    names: { value: 'amount' },
    isOnce: true,
  })
  const isLinkedTo = useLocation({ select: ({ hash }) => hash === 'balance' })
  // A link to this form focuses it.
  useEffect(() => {
    if (isLinkedTo) form.setFocus('amount')
  }, [isLinkedTo, form])
  const { mode, amount, reason } = form.watch()
  const isReady = amount !== '' && reason.trim() !== ''
  return (
    <Section title={t('users.change_balance')}>
      <form className="flex flex-col gap-3" onSubmit={event => void submit(event)}>
        <div className="flex flex-wrap items-start gap-2">
          <Field label={t('users.mode')}>
            {wiring => (
              <Choice {...wiring} {...form.register('mode')}>
                <option value="add">{t('users.add_mode')}</option>
                <option value="subtract">{t('users.subtract_mode')}</option>
                <option value="override">{t('users.set_mode')}</option>
              </Choice>
            )}
          </Field>
          <Field name="balance" label={t('tokens.amount')} error={errorOf('amount')} className="w-36">
            {wiring => <AmountInput {...wiring} {...form.register('amount')} />}
          </Field>
        </div>
        <Field label={t('users.reason')} error={errorOf('reason')} help={t('users.reason_help')}>
          {wiring => <TextInput {...wiring} {...form.register('reason')} />}
        </Field>
        {amount === '' ? null : (
          <p role="status">
            {t('users.preview', {
              before: moneyOfSpan(user.quota),
              after: moneyOfSpan(Math.max(0, AFTER[mode](user.quota, unitsOfUsd(Number(amount))))),
            })}
          </p>
        )}
        <FormError words={fault} />
        <Button type="submit" kind="primary" className="self-end" isBusy={isBusy} disabled={!isReady}>
          {t('users.change_balance')}
        </Button>
      </form>
    </Section>
  )
}
