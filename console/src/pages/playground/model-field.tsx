import { useTranslation } from 'react-i18next'
import { Combobox } from '../../look/combobox.tsx'
import { Field } from '../../look/field.tsx'
import { ratesText } from '../../look/rates.ts'
import { useErrorText } from '../../look/states.tsx'
import { type PlaygroundEndpoint, useAvailableModels, usePrices } from './available-models.ts'

type ModelFieldProps = {
  readonly kind: PlaygroundEndpoint
  readonly label?: string
  readonly value: string
  readonly onChange: (model: string) => void
}

/** Model name with suggestions and the model's price. Other names can be typed. */
export function ModelField({ kind, label, value, onChange }: ModelFieldProps) {
  const { t } = useTranslation()
  const models = useAvailableModels(kind)
  const { error, isPending } = usePrices()
  const words = useErrorText()
  const chosen = models.find(({ model_name }) => model_name === value)
  const price = chosen && (chosen.unpriced ? t('prices.not_priced') : ratesText(t, chosen))
  // While models are loading, none is reported missing.
  const help = price ?? (models.length > 0 || isPending || error ? undefined : t('playground.no_model'))
  return (
    <Field label={label ?? t('playground.model')} help={help} error={error ? words(error) : undefined}>
      {wiring => (
        <Combobox
          {...wiring}
          className="font-mono"
          value={value}
          options={models.map(({ model_name }) => model_name)}
          onChange={onChange}
        />
      )}
    </Field>
  )
}
