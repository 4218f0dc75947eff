import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import type { PriceItem } from '../../api/contract.ts'
import { useRouteMutation } from '../../api/query.ts'
import { Button, buttonClasses } from '../../look/button.tsx'
import { AmountInput, Field } from '../../look/field.tsx'
import { Download, Percent } from '../../look/icons.ts'
import type { RowSelection } from '../../look/selection.ts'
import { SelectionBar } from '../../look/selection-bar.tsx'
import { useErrorText } from '../../look/states.tsx'
import { priceFile } from './price-file.ts'
import { PricePreviewDialog } from './price-preview-dialog.tsx'
import { usePricePreview } from './use-price-preview.ts'

/** The API's limit for one call. */
const MAX_PRICES = 500

/** Multiplies prices. A dry run shows the result first, because only the gateway computes prices. */
function Multiply({ models, onClose }: { readonly models: readonly string[]; readonly onClose: () => void }) {
  const { t } = useTranslation()
  const words = useErrorText()
  const act = useRouteMutation('multiplyPrices')
  const [factor, setFactor] = useState('1.1')
  const trial = usePricePreview(
    isDry =>
      act
        .mutateAsync({ body: { models: [...models], factor: Number(factor), dry_run: isDry } })
        .catch(() => undefined),
    onClose,
  )
  return (
    <PricePreviewDialog
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
    </PricePreviewDialog>
  )
}

/** Bulk actions on the selected prices. */
export function PriceBulk({ selection }: { readonly selection: RowSelection<PriceItem> }) {
  const { t } = useTranslation()
  const { rows } = selection
  const [isMultiplying, setMultiplying] = useState(false)
  return (
    <SelectionBar label={t('prices.selected')} selection={selection}>
      <Button icon={Percent} disabled={rows.length > MAX_PRICES} onClick={() => setMultiplying(true)}>
        {t('prices.multiply')}
      </Button>
      <a download="prices.csv" href={priceFile(rows)} className={buttonClasses('plain')}>
        <Download size={16} aria-hidden />
        {t('usage.export.csv')}
      </a>
      {rows.length > MAX_PRICES ? (
        <span className="text-ink-3">{t('prices.at_most', { count: MAX_PRICES })}</span>
      ) : null}
      {isMultiplying ? (
        <Multiply models={rows.map(({ model }) => model)} onClose={() => setMultiplying(false)} />
      ) : null}
    </SelectionBar>
  )
}
