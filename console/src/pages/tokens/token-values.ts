import type { BodyMode } from '../../../../src/domain/body-log.ts'
import type { Token } from '../../api/contract.ts'
import { changedFields } from '../../api/form.ts'
import { unitsOfUsd, usdOfUnits } from '../../look/format.ts'
import { fromDateField } from '../../look/zone.ts'

/** The values of the token form. */
export type TokenValues = {
  name: string
  limit: 'none' | 'amount'
  /** US dollars, as text. */
  amount: string
  expiry: 'never' | 'date' | 'kept'
  date: string
  modelsMode: 'all' | 'some'
  models: string[]
  allow_ips: string
  rpm: string
  tpm: string
  concurrency: string
  log_bodies: BodyMode
}

const limitText = (limit: number | null) => (limit === null ? '' : String(limit))

export const valuesOf = (token: Token): TokenValues => ({
  name: token.name,
  limit: token.unlimited_quota ? 'none' : 'amount',
  amount: token.unlimited_quota ? '' : String(usdOfUnits(token.remain_quota)),
  expiry: token.expired_time === -1 ? 'never' : 'kept',
  date: '',
  modelsMode: token.model_limits_enabled ? 'some' : 'all',
  models: token.models,
  allow_ips: token.allow_ips.join('\n'),
  rpm: limitText(token.limits.rpm),
  tpm: limitText(token.limits.tpm),
  concurrency: limitText(token.limits.concurrency),
  log_bodies: token.log_bodies,
})

export const newValues = (limit: TokenValues['limit']): TokenValues => ({
  name: '',
  limit,
  amount: '5',
  expiry: 'never',
  date: '',
  modelsMode: 'all',
  models: [],
  allow_ips: '',
  rpm: '',
  tpm: '',
  concurrency: '',
  log_bodies: 'none',
})

const expiryOf = ({ expiry, date }: TokenValues) => {
  if (expiry === 'kept') return {}
  return { expired_time: expiry === 'never' ? -1 : (fromDateField(date) ?? Number.NaN) }
}
const limitOf = (text: string) => (text.trim() === '' ? null : Number(text))

/** The token as the API expects it. */
export const bodyOf = (values: TokenValues) => ({
  name: values.name,
  unlimited_quota: values.limit === 'none',
  ...(values.limit === 'none' ? {} : { remain_quota: unitsOfUsd(Number(values.amount)) }),
  ...expiryOf(values),
  model_limits_enabled: values.modelsMode === 'some',
  models: values.models,
  allow_ips: values.allow_ips,
  limits: { rpm: limitOf(values.rpm), tpm: limitOf(values.tpm), concurrency: limitOf(values.concurrency) },
  log_bodies: values.log_bodies,
})

export const changesOf = (values: TokenValues, before: TokenValues) =>
  changedFields(bodyOf(values), bodyOf(before))
