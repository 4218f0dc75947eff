import type { TFunction } from 'i18next'
import { useTranslation } from 'react-i18next'
import { RATES, TOOLS_ALONE } from '../../../../src/manage/contract/constants.ts'
import type { AnswerOf } from '../../api/contract.ts'
import { ApiError } from '../../api/errors.ts'
import { price } from '../../look/format.ts'
import { useErrorText } from '../../look/states.tsx'

export type PriceResult = AnswerOf<'changePrices'>[number]

/** The differences between two prices, rate by rate. */
function differences(t: TFunction, { before, after }: PriceResult): readonly string[] {
  const rates = RATES.filter(rate => before?.[rate] !== after?.[rate]).map(
    rate => `${t(`rate.${rate}`)} ${price(before?.[rate])} → ${price(after?.[rate])}`,
  )
  const tools = TOOLS_ALONE.filter(tool => before?.tools?.[tool] !== after?.tools?.[tool]).map(
    tool => `${t(`rate.${tool}`)} ${price(before?.tools?.[tool])} → ${price(after?.tools?.[tool])}`,
  )
  const others = (['tiers', 'variants', 'max_output_tokens', 'unit_note'] as const)
    .filter(name => JSON.stringify(before?.[name]) !== JSON.stringify(after?.[name]))
    .map(name => t(`prices.changed.${name}`))
  return [...rates, ...tools, ...others]
}

/** Preview of price changes: differences, and errors of prices that cannot be set. */
export function PriceChanges({ results }: { readonly results: readonly PriceResult[] }) {
  const { t } = useTranslation()
  const words = useErrorText()
  const same = results.filter(({ is_changed, code }) => !is_changed && code === '')
  return (
    <>
      <ul
        aria-label={t('prices.preview')}
        className="flex max-h-80 flex-col divide-y divide-line overflow-y-auto text-table"
      >
        {results
          .filter(({ is_changed, code }) => is_changed || code !== '')
          .map(result => (
            <li key={result.model} className="flex flex-col gap-0.5 py-1.5">
              <span className="font-mono text-code break-all">{result.model}</span>
              {result.code === '' ? (
                <span className="text-ink-2">{differences(t, result).join(' · ')}</span>
              ) : (
                <span className="text-bad">
                  {words(new ApiError({ status: 200, code: result.code, message: result.message }))}
                </span>
              )}
            </li>
          ))}
      </ul>
      {same.length > 0 ? (
        <p className="text-label text-ink-3">{t('prices.same', { count: same.length })}</p>
      ) : null}
    </>
  )
}
