import type { Path, UseFormReturn } from 'react-hook-form'
import { useTranslation } from 'react-i18next'
import { BodyModeField } from '../../look/body-mode.tsx'
import { Button } from '../../look/button.tsx'
import { Field, Radios, TextArea, TextInput } from '../../look/field.tsx'
import { count, unitsOfUsd } from '../../look/format.ts'
import { LimitFields } from '../../look/limit-fields.tsx'
import { toDateField, zone } from '../../look/zone.ts'
import { ModelChoice } from '../models/model-choice.tsx'
import type { TokenValues } from './token-values.ts'

type TokenFieldsProps = {
  readonly form: UseFormReturn<TokenValues>
  readonly errorOf: (name: Path<TokenValues>) => string | undefined
  /** Current expiry of the token. */
  readonly expires?: number
}

const PRESETS = [1, 5, 20, 100] as const
const DAYS = [1, 7, 30, 90] as const
const DAY_S = 86_400

const inDays = (days: number) => toDateField(Date.now() / 1000 + days * DAY_S)

export function TokenFields({ form, errorOf, expires }: TokenFieldsProps) {
  const { t } = useTranslation()
  const values = form.watch()
  return (
    <div className="flex flex-col gap-4">
      <Field label={t('tokens.name')} error={errorOf('name')}>
        {wiring => <TextInput {...wiring} {...form.register('name')} autoComplete="off" />}
      </Field>
      <div data-field="quota" className="flex flex-col gap-4">
        <Radios
          legend={t('tokens.limit')}
          value={values.limit}
          onChange={value => form.setValue('limit', value)}
          options={[
            { value: 'none', label: t('tokens.limit_none'), help: t('tokens.limit_none_help') },
            { value: 'amount', label: t('tokens.limit_amount') },
          ]}
        />
        {values.limit === 'amount' ? (
          <Field
            label={t('tokens.amount')}
            error={errorOf('amount')}
            help={t('tokens.units', { units: count(unitsOfUsd(Number(values.amount) || 0)) })}
          >
            {wiring => (
              <span className="flex flex-wrap gap-2">
                <TextInput
                  {...wiring}
                  {...form.register('amount')}
                  type="number"
                  min={0}
                  step="any"
                  className="w-32!"
                />
                {PRESETS.map(preset => (
                  <Button key={preset} onClick={() => form.setValue('amount', String(preset))}>
                    ${preset}
                  </Button>
                ))}
              </span>
            )}
          </Field>
        ) : null}
      </div>
      <Radios
        field="expiry"
        legend={t('tokens.expires')}
        value={values.expiry}
        onChange={value => {
          form.setValue('expiry', value)
          if (value === 'date' && !values.date) form.setValue('date', inDays(30))
        }}
        options={[
          ...(expires === undefined || expires === -1
            ? []
            : [
                {
                  value: 'kept' as const,
                  label: t('tokens.expiry_unchanged', { date: toDateField(expires).replace('T', ' ') }),
                },
              ]),
          { value: 'never' as const, label: t('common.never') },
          { value: 'date' as const, label: t('tokens.expiry_date') },
        ]}
      />
      {values.expiry === 'date' ? (
        <Field label={t('tokens.date')} error={errorOf('date')} help={zone()}>
          {wiring => (
            <span className="flex flex-wrap gap-2">
              <TextInput {...wiring} {...form.register('date')} type="datetime-local" className="w-52!" />
              {DAYS.map(days => (
                <Button key={days} onClick={() => form.setValue('date', inDays(days))}>
                  {t('tokens.days', { count: days })}
                </Button>
              ))}
            </span>
          )}
        </Field>
      ) : null}
      <div data-field="models" className="flex flex-col gap-4">
        <Radios
          legend={t('tokens.models')}
          value={values.modelsMode}
          onChange={value => form.setValue('modelsMode', value)}
          options={[
            { value: 'all', label: t('tokens.all_models') },
            { value: 'some', label: t('tokens.models_some') },
          ]}
        />
        {values.modelsMode === 'some' ? (
          <ModelChoice
            chosen={values.models}
            onChange={models => form.setValue('models', [...models])}
            error={errorOf('models')}
          />
        ) : null}
      </div>
      <details>
        <summary className="text-body font-medium">{t('editor.advanced')}</summary>
        <div className="flex flex-col gap-4 pt-3">
          <Field
            name="allow_ips"
            label={t('tokens.addresses')}
            error={errorOf('allow_ips')}
            help={t('tokens.addresses_help')}
          >
            {wiring => (
              <TextArea
                {...wiring}
                {...form.register('allow_ips')}
                rows={2}
                placeholder={'203.0.113.7\n10.0.0.0/8'}
                className="font-mono text-code"
              />
            )}
          </Field>
          <LimitFields register={form.register} errorOf={errorOf} />
          <BodyModeField
            mode={values.log_bodies}
            error={errorOf('log_bodies')}
            {...form.register('log_bodies')}
          />
        </div>
      </details>
    </div>
  )
}
