import type { TFunction } from 'i18next'
import type { PriceItem } from '../../api/contract.ts'
import { price } from '../../look/format.ts'
import { unitRates } from '../../look/rates.ts'
import type { Column } from '../../look/table-props.ts'

const perMillion = (
  t: TFunction,
  id: 'input' | 'output' | 'cached_input',
  fromPx = 0,
): Column<PriceItem> => ({
  id,
  header: t(`rate.${id}`),
  isRight: true,
  fromPx,
  cell: row => price(row[id]),
})

export const priceColumns = (t: TFunction): readonly Column<PriceItem>[] => [
  {
    id: 'model',
    header: t('prices.model'),
    place: 'title',
    cell: ({ model }) => <span className="block truncate font-mono text-code">{model}</span>,
  },
  { ...perMillion(t, 'input'), place: 'figure' },
  { ...perMillion(t, 'output'), place: 'figure' },
  perMillion(t, 'cached_input', 1100),
  {
    id: 'other',
    header: t('prices.other'),
    fromPx: 900,
    place: 'note',
    cell: row => {
      const tiers = (row.tiers?.length ?? 0) + (row.variants?.length ?? 0)
      const words = [unitRates(t, row), tiers > 0 ? t('prices.tiers', { count: tiers }) : '']
        .filter(Boolean)
        .join(' · ')
      return words || <span className="text-ink-3">–</span>
    },
  },
  {
    id: 'source',
    header: t('prices.source'),
    place: 'state',
    cell: ({ source }) =>
      source === 'admin' ? (
        <span className="font-medium">{t('prices.custom')}</span>
      ) : (
        <span className="text-ink-3">{t('prices.built_in')}</span>
      ),
  },
]
