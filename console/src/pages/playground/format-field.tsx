import { useTranslation } from 'react-i18next'
import { Choice, Field } from '../../look/field.tsx'

type FormatFieldProps = {
  readonly formats: readonly string[]
  /** Empty means the provider's default. */
  readonly value: string
  readonly onChange: (format: string) => void
}

/** The response format. */
export function FormatField({ formats, value, onChange }: FormatFieldProps) {
  const { t } = useTranslation()
  return (
    <Field label={t('playground.format')}>
      {wiring => (
        <Choice {...wiring} value={value} onChange={event => onChange(event.target.value)}>
          <option value="">{t('playground.default')}</option>
          {formats.map(name => (
            <option key={name}>{name}</option>
          ))}
        </Choice>
      )}
    </Field>
  )
}
