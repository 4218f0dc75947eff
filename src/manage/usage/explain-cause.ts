import { isKeyRefusal } from '../../domain/channel-condition.ts'
import type { explainContract } from '../contract/explain.ts'
import type { Answer } from '../contract/route.ts'
import { secondsText } from './explain-words.ts'

export type Explanation = Answer<(typeof explainContract)['explainRequest']>

/** An attempt as it is stored with its request. */
export type LoggedAttempt = {
  readonly channel: number
  readonly status: number | string
  readonly ms: number
  readonly sent_model?: string
  readonly provider?: NonNullable<Explanation['attempts'][number]['provider']>
}

/** What failed in an attempt: the key, the model name, the base URL, or something that no change of the channel mends. */
type Blame = 'key' | 'credit' | 'rate' | 'model' | 'address' | 'other'

const TIMEOUTS: ReadonlySet<string> = new Set([
  'first byte',
  'total',
  'connect timeout',
  'idle timeout',
  'ETIMEDOUT',
  // In rows of earlier versions.
  'UND_ERR_CONNECT_TIMEOUT',
  'UND_ERR_HEADERS_TIMEOUT',
  'UND_ERR_BODY_TIMEOUT',
])
const UNKNOWN_HOST: ReadonlySet<string> = new Set(['ENOTFOUND', 'EAI_AGAIN'])
const BAD_CERTIFICATE = /CERT|EPROTO|UNABLE_TO_VERIFY/
/** 4xx after which the gateway tries the next channel, beside those with sentences of their own. */
const RETRIED: ReadonlySet<number> = new Set([405, 408, 409, 425])

export const hasFailed = ({ status }: Pick<LoggedAttempt, 'status'>) =>
  typeof status === 'number' ? status >= 400 : status !== 'left' && status !== 'not sent'

export function blameOf({ status }: Pick<LoggedAttempt, 'status'>): Blame {
  if (isKeyRefusal(status)) return 'key'
  if (status === 402) return 'credit'
  if (status === 429) return 'rate'
  if (status === 404) return 'model'
  const isAddress =
    typeof status === 'string' &&
    (status === 'ECONNREFUSED' || UNKNOWN_HOST.has(status) || BAD_CERTIFICATE.test(status))
  return isAddress ? 'address' : 'other'
}

type CauseContext = {
  /** The requested model. */
  readonly model: string
  /** The base URL of the channel; empty if it is the default of its provider. */
  readonly baseUrl: string
}

/** The status, and the provider's code if it adds to it: `401 invalid_api_key`. */
function statusText({ status, provider }: LoggedAttempt): string {
  const code = provider?.code
  return code !== undefined && code !== '' && code !== String(status) ? `${status} ${code}` : String(status)
}

/** Without a user and password, which a URL may have. */
function shownUrl(baseUrl: string): string {
  if (!URL.canParse(baseUrl)) return 'its base URL'
  const { origin, pathname } = new URL(baseUrl)
  return pathname === '/' ? origin : `${origin}${pathname}`
}

/** Why an attempt failed, in a sentence whose subject is the channel that was named before. */
export function causeSentence(attempt: LoggedAttempt, { model, baseUrl }: CauseContext): string {
  const { status, ms, provider, sent_model } = attempt
  if (typeof status === 'string') return connectionSentence(status, ms, shownUrl(baseUrl))
  const text = statusText(attempt)
  const waitS = provider?.retry_after_s
  switch (blameOf(attempt)) {
    case 'key':
      return `Its provider rejected the key (${text}).`
    case 'credit':
      return `Its provider reported that the credit is used up (${text}).`
    case 'rate':
      return waitS === undefined
        ? `Its provider limits the rate (${text}).`
        : `Its provider limits the rate (${text}) and asked to wait ${waitS} s.`
    case 'model':
      return sent_model === undefined || sent_model === model
        ? `Its provider does not know the model "${model}", or the base URL is wrong (${text}).`
        : `Its provider does not know the model "${sent_model}", to which the channel maps "${model}" (${text}).`
    default:
      return status >= 500 || status < 400 || RETRIED.has(status)
        ? `Its provider failed (${text}).`
        : `Its provider refused the request itself (${text}), so no other channel was tried.`
  }
}

function connectionSentence(reason: string, ms: number, url: string): string {
  if (reason === 'ECONNREFUSED') return `Nothing accepts connections at ${url} (${reason}).`
  if (UNKNOWN_HOST.has(reason)) return `The host name of ${url} is unknown (${reason}).`
  if (BAD_CERTIFICATE.test(reason)) return `The TLS certificate of ${url} is not valid (${reason}).`
  if (TIMEOUTS.has(reason)) return `It did not answer within ${secondsText(ms)} (${url}).`
  return `The exchange with ${url} failed (${reason}).`
}
