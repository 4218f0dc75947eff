import type { TFunction } from 'i18next'
import { UNIT_RATES } from '../../../src/manage/contract/constants.ts'
import { price } from './format.ts'

type UnitRates = { readonly [rate in (typeof UNIT_RATES)[number]]?: number | undefined }
type Rates = UnitRates & { readonly input?: number | undefined; readonly output?: number | undefined }

/** Prices by the call, second, character …: each with its unit. */
export const unitRates = (t: TFunction, rates: UnitRates): string =>
  UNIT_RATES.filter(rate => rates[rate] !== undefined)
    .map(rate => `${price(rates[rate])} ${t(`rate.${rate}`)}`)
    .join(' · ')

/** What a model costs, in one line. */
export function ratesInWords(t: TFunction, rates: Rates): string {
  const perToken = (['input', 'output'] as const)
    .filter(rate => rates[rate] !== undefined)
    .map(rate => `${t(`rate.${rate}`)} ${price(rates[rate])}`)
  const perMillion = perToken.length > 0 ? `${perToken.join(', ')} (${t('prices.per_million')})` : ''
  return [perMillion, unitRates(t, rates)].filter(Boolean).join(' · ')
}
