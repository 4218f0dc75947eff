import type { UseFormRegisterReturn } from 'react-hook-form'
import { useTranslation } from 'react-i18next'
import { Field, TextInput } from './field.tsx'

/** The rate limits of tokens, users and channels. */
export const LIMITS = ['rpm', 'tpm', 'concurrency'] as const
type Limit = (typeof LIMITS)[number]

type LimitFieldsProps = {
  readonly register: (name: Limit) => UseFormRegisterReturn
  readonly errorOf: (name: Limit) => string | undefined
}

export function LimitFields({ register, errorOf }: LimitFieldsProps) {
  const { t } = useTranslation()
  return (
    <div data-field="limits" className="grid grid-cols-3 gap-3">
      {LIMITS.map(name => (
        <Field key={name} label={t(`limits.${name}`)} error={errorOf(name)}>
          {wiring => (
            <TextInput {...wiring} {...register(name)} type="number" min={1} placeholder={t('limits.none')} />
          )}
        </Field>
      ))}
    </div>
  )
}
