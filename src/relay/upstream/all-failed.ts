import { Refusal } from '../../domain/errors.ts'
import { overloaded } from '../../http/budget.ts'
import type { AttemptFailure } from './failure.ts'
import { failureSummary, providerReport } from './provider-report.ts'

const DEFAULT_RETRY_S = 5

const isTimeout = ({ kind, status }: AttemptFailure) => kind === 'timeout' || status === 408

type Disclosure = {
  /** The setting `expose_provider_messages`: clients may read what the last provider reported. */
  readonly exposesMessages: boolean
}

/** The error for a client after all attempts failed (docs/reference/errors.md: Failed attempts). */
export function refusalFor(failures: readonly AttemptFailure[], { exposesMessages }: Disclosure): Refusal {
  const last = failures.at(-1)
  if (last?.shortage) return overloaded(last.shortage)
  const report = last && providerReport(last)
  const summary = last ? failureSummary(last, report) : 'not sent'
  const message = exposesMessages ? report?.message : undefined
  const detail = message === undefined ? 'Try again later.' : `The provider reported: ${message}`
  if (failures.every(isTimeout))
    return new Refusal('upstream_timeout', `All channels timed out (last: ${summary}). ${detail}`)
  if (failures.every(({ status }) => status === 429)) {
    const retryAfterS = Math.min(...failures.map(failure => failure.retryAfterS ?? DEFAULT_RETRY_S))
    const fault = `All channels are rate limited by their providers (last: ${summary}). ${detail}`
    return new Refusal('upstream_rate_limited', fault, { retryAfterS })
  }
  return new Refusal('upstream_error', `All channels failed (last: ${summary}). ${detail}`)
}
