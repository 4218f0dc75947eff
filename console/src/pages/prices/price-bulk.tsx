import { Download, Percent } from 'lucide-react'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import type { Price } from '../../api/contract.ts'
import { useAct } from '../../api/query.ts'
import { Button, buttonClasses } from '../../look/button.tsx'
import { AmountInput, Field } from '../../look/field.tsx'
import type { RowSelection } from '../../look/selection.ts'
import { SelectionBar } from '../../look/selection-bar.tsx'
import { useFaultWords } from '../../look/states.tsx'
import { priceFile } from './price-file.ts'
import { PriceTrialDialog } from './price-preview-dialog.tsx'
import { usePriceTrial } from './use-price-preview.ts'

/** As many as one call takes. */
const MOST = 500

/** Times a factor: asked first what that comes to, because the gateway alone computes prices. */
function Multiply({ models, onClose }: { readonly models: readonly string[]; readonly onClose: () => void }) {
  const { t } = useTranslation()
  const words = useFaultWords()
  const act = useAct('multiplyPrices')
  const [factor, setFactor] = useState('1.1')
  const trial = usePriceTrial(
    isDry =>
      act
        .mutateAsync({ body: { models: [...models], factor: Number(factor), dry_run: isDry } })
        .catch(() => undefined),
    onClose,
  )
  return (
    <PriceTrialDialog
      title={t('prices.multiply_title', { count: models.length })}
      trial={trial}
      isReady={Number(factor) > 0}
      isBusy={act.isPending}
      onClose={onClose}
    >
      <Field
        label={t('prices.factor')}
        help={t('prices.factor_help')}
        error={act.error ? words(act.error) : undefined}
        className="max-w-40"
      >
        {wiring => (
          <AmountInput
            {...wiring}
            value={factor}
            onChange={event => {
              setFactor(event.target.value)
              trial.forget()
            }}
          />
        )}
      </Field>
    </PriceTrialDialog>
  )
}

/** What can be done to the selected prices. */
export function PriceBulk({ selection }: { readonly selection: RowSelection<Price> }) {
  const { t } = useTranslation()
  const { rows } = selection
  const [isMultiplying, setMultiplying] = useState(false)
  return (
    <SelectionBar label={t('prices.selected')} selection={selection}>
      <Button icon={Percent} disabled={rows.length > MOST} onClick={() => setMultiplying(true)}>
        {t('prices.multiply')}
      </Button>
      <a download="prices.csv" href={priceFile(rows)} className={buttonClasses('plain')}>
        <Download size={16} aria-hidden />
        {t('usage.export.csv')}
      </a>
      {rows.length > MOST ? <span className="text-ink-3">{t('prices.at_most', { count: MOST })}</span> : null}
      {isMultiplying ? (
        <Multiply models={rows.map(({ model }) => model)} onClose={() => setMultiplying(false)} />
      ) : null}
    </SelectionBar>
  )
}
