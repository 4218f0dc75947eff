import { useTranslation } from 'react-i18next'
import type { Token } from '../../api/contract.ts'
import { useContractForm } from '../../api/form.ts'
import { useSelf } from '../../api/self.ts'
import { Button } from '../../look/button.tsx'
import { AmountInput, Field, Radios, TextInput } from '../../look/field.tsx'
import { FormError } from '../../look/form-error.tsx'
import { unitsOfUsd } from '../../look/format.ts'
import { NoBalance } from '../../look/no-balance.tsx'
import { Secret } from '../../look/secret.tsx'
import { Snippets } from '../../look/snippets.tsx'

type Values = { name: string; limit: 'none' | 'amount'; amount: string }

type TokenStepProps = {
  readonly token: Token | undefined
  readonly model: string | undefined
  readonly onCreated: (token: Token) => void
}

export function TokenStep({ token, model, onCreated }: TokenStepProps) {
  const { t } = useTranslation()
  const self = useSelf()
  const { form, submit, errorOf, isBusy, fault } = useContractForm<'createToken', Values>({
    route: 'createToken',
    defaults: { name: 'my-first-app', limit: self.unlimited_quota ? 'none' : 'amount', amount: '5' },
    toInput: ({ name, limit, amount }) => ({
      body: {
        name,
        unlimited_quota: limit === 'none',
        ...(limit === 'none' ? {} : { remain_quota: unitsOfUsd(Number(amount)) }),
      },
    }),
    onDone: onCreated,
    names: { remain_quota: 'amount' },
  })
  if (token)
    return (
      <>
        <Secret label={t('tokens.key')} value={token.key} canReveal />
        <Snippets apiKey={token.key} model={model ?? t('tokens.some_model')} />
      </>
    )
  return (
    <form className="flex flex-col gap-4" onSubmit={event => void submit(event)}>
      <NoBalance />
      <Field label={t('tokens.name')} error={errorOf('name')}>
        {wiring => <TextInput {...wiring} {...form.register('name')} autoComplete="off" />}
      </Field>
      <Radios
        legend={t('tokens.limit')}
        value={form.watch('limit')}
        onChange={value => form.setValue('limit', value)}
        options={[
          { value: 'none', label: t('tokens.limit_none') },
          { value: 'amount', label: t('tokens.limit_amount') },
        ]}
      />
      {form.watch('limit') === 'amount' ? (
        <Field label={t('tokens.amount')} error={errorOf('amount')}>
          {wiring => <AmountInput {...wiring} {...form.register('amount')} />}
        </Field>
      ) : null}
      <FormError words={fault} />
      <Button type="submit" kind="primary" className="self-start" isBusy={isBusy}>
        {t('tokens.create')}
      </Button>
    </form>
  )
}
