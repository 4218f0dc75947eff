import type { ComponentProps } from 'react'
import { useTranslation } from 'react-i18next'
import { BODY_MODES } from '../../../src/domain/body-log.ts'
import { Choice, Field } from './field.tsx'

type BodyModeFieldProps = ComponentProps<'select'> & {
  readonly mode: string
  readonly error?: string | undefined
}

/** Which bodies of requests and answers are kept. */
export function BodyModeField({ mode, error, ...rest }: BodyModeFieldProps) {
  const { t } = useTranslation()
  const help = mode === 'none' ? t('bodies.help') : t('bodies.warning')
  return (
    <Field name="log_bodies" label={t('bodies.label')} help={help} error={error}>
      {wiring => (
        <Choice {...wiring} {...rest}>
          {BODY_MODES.map(name => (
            <option key={name} value={name}>
              {t(`bodies.modes.${name}`)}
            </option>
          ))}
        </Choice>
      )}
    </Field>
  )
}
