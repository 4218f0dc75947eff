import type { TFunction } from 'i18next'
import { TOOLS_ALONE, UNIT_RATES } from '../../../src/manage/contract/constants.ts'
import { price } from './format.ts'

type Tool = (typeof TOOLS_ALONE)[number]
type UnitRates = { readonly [rate in (typeof UNIT_RATES)[number]]?: number | undefined } & {
  readonly tools?: { readonly [tool in Tool]?: number | undefined } | undefined
}
type Rates = UnitRates & { readonly input?: number | undefined; readonly output?: number | undefined }

/** Prices per call, second, character, tool call and so on, each with its unit. */
export const unitRates = (t: TFunction, { tools, ...rates }: UnitRates): string =>
  [
    ...UNIT_RATES.map(rate => [rate, rates[rate]] as const),
    ...TOOLS_ALONE.map(tool => [tool, tools?.[tool]] as const),
  ]
    .filter(([, usd]) => usd !== undefined)
    .map(([rate, usd]) => `${price(usd)} ${t(`rate.${rate}`)}`)
    .join(' · ')

/** The price of a model in one line. */
export function ratesText(t: TFunction, rates: Rates): string {
  const perToken = (['input', 'output'] as const)
    .filter(rate => rates[rate] !== undefined)
    .map(rate => `${t(`rate.${rate}`)} ${price(rates[rate])}`)
  const perMillion = perToken.length > 0 ? `${perToken.join(', ')} (${t('prices.per_million')})` : ''
  return [perMillion, unitRates(t, rates)].filter(Boolean).join(' · ')
}
