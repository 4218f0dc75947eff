import { type AlertMessage, bodyOf, subjectOf } from '../alerts/message.ts'
import { type OpenTarget, refusalOf, requestOf } from '../alerts/templates.ts'
import type { TargetSecrets } from '../domain/alert.ts'
import { Refusal } from '../domain/errors.ts'
import { createScrub } from '../domain/scrub.ts'
import type { OutboundClient } from '../http/outbound.ts'
import { type Keyring, SealError } from '../identity/keyring.ts'
import type { AlertTargetRow } from '../store/engine/schema.ts'
import { optionsOfTarget } from '../store/records/alert-targets.ts'
import { MailError, type SendMail } from './alert-mail.ts'

const MAX_ERROR = 300

/** The result of one attempt to send a message. */
export type SendResult =
  | { readonly isSent: true; readonly status: number | undefined }
  | {
      readonly isSent: false
      readonly status: number | undefined
      readonly error: string
      readonly retryAfterS?: number | undefined
    }

type SenderDeps = {
  readonly outbound: Pick<OutboundClient, 'post'>
  readonly sendMail: SendMail
  readonly keyring: Keyring
  readonly nowMs: () => number
}

const placeOf = (id: number) => ({ table: 'alert_targets', row: id, field: 'secrets' })

/** The parts of a target that must not appear in an error: a provider may repeat the path of a URL without its host. */
function secretsIn({ url, secret, bot_token }: TargetSecrets): string[] {
  const parts = URL.canParse(url) ? new URL(url) : undefined
  const fromUrl = parts
    ? [parts.pathname + parts.search, ...parts.pathname.split('/'), ...parts.searchParams.values()]
    : []
  return [url, secret, bot_token, ...fromUrl.filter(text => text.length >= 8)]
}

/** Sends messages to targets: an HTTP request or a mail, once. */
export function createAlertSender({ outbound, sendMail, keyring, nowMs }: SenderDeps) {
  async function attempt(target: OpenTarget, message: AlertMessage): Promise<SendResult> {
    const { type, options, secrets } = target
    if (type === 'email') {
      const [subject, text] = [subjectOf(message, options.language), bodyOf(message, options.language)]
      await sendMail({ to: options.to, subject, text: text || subject })
      return { isSent: true, status: undefined }
    }
    const answer = await outbound.post({
      ...requestOf(target, message, nowMs()),
      secrets: secretsIn(secrets),
    })
    const error = refusalOf(type, answer)
    if (error === undefined) return { isSent: true, status: answer.status }
    return { isSent: false, status: answer.status, error, retryAfterS: answer.retryAfterS }
  }

  return async function send(row: AlertTargetRow, message: AlertMessage): Promise<SendResult> {
    const failed = (error: string) => ({ isSent: false, status: undefined, error }) as const
    let secrets: TargetSecrets
    try {
      secrets = JSON.parse(keyring.open(row.sealed, placeOf(row.id))) as TargetSecrets
    } catch (error) {
      if (!(error instanceof SealError)) throw error
      return failed(
        'The secrets of the target cannot be decrypted with the current master secret. Enter them again.',
      )
    }
    const scrub = createScrub(secretsIn(secrets))
    const short = (text: string) => scrub(text.replace(/\s+/g, ' ')).slice(0, MAX_ERROR)
    try {
      const result = await attempt({ type: row.type, options: optionsOfTarget(row), secrets }, message)
      return result.isSent ? result : { ...result, error: short(result.error) }
    } catch (error) {
      if (error instanceof Refusal || error instanceof MailError) return failed(short(error.message))
      throw error
    }
  }
}

export type SendAlert = ReturnType<typeof createAlertSender>
