import { useTranslation } from 'react-i18next'
import { cost } from '../../../../src/domain/cost.ts'
import { usdText } from '../../../../src/domain/money.ts'
import { type PriceInput, readPrice } from '../../../../src/domain/price.ts'
import { countedUsage } from '../../../../src/domain/usage.ts'
import { count, moneyOfOne } from '../../look/format.ts'

const INPUT = 1_000
const OUTPUT = 500

/** The cost of a typical request, computed with the gateway's own code. */
export function PriceExample({ price }: { readonly price: PriceInput }) {
  const { t } = useTranslation()
  const reading = readPrice(price)
  const isForTexts = price.input !== undefined || price.output !== undefined || price.per_call !== undefined
  if (!isForTexts || 'faults' in reading) return null
  const amount = moneyOfOne(usdText(cost(reading.price, countedUsage(INPUT, OUTPUT))))
  const searched = { ...countedUsage(INPUT, OUTPUT), searches: 1 }
  return (
    <p role="status" className="text-label text-ink-2">
      {t('prices.example', {
        input: count(INPUT),
        output: count(OUTPUT),
        amount,
      })}
      {reading.price.rates.per_search === undefined
        ? null
        : ` ${t('prices.example_search', { amount: moneyOfOne(usdText(cost(reading.price, searched))) })}`}
    </p>
  )
}
