import { createHmac } from 'node:crypto'
import type { TargetOptions, TargetSecrets, TargetType } from '../domain/alert.ts'
import { isObject } from '../domain/json-object.ts'
import { type AlertMessage, textOf, webhookBodyOf } from './message.ts'

/** A target with its secrets in plain text. */
export type OpenTarget = {
  readonly type: TargetType
  readonly options: TargetOptions
  readonly secrets: TargetSecrets
}

/** A message as the HTTP request that a service expects. */
export type AlertRequest = {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

type Context = OpenTarget & { readonly message: AlertMessage; readonly nowMs: number }

/** The longest texts that the services accept, in characters; for WeCom in bytes. */
const MAX_DISCORD = 2_000
const MAX_TELEGRAM = 4_096
const MAX_WECOM_BYTES = 2_048
const MAX_TEXT = 10_000

const hmac = (key: string, text: string) => createHmac('sha256', key).update(text)

const CUT_MARK = '…'
const cut = (text: string, max: number) =>
  text.length <= max
    ? text
    : `${text.slice(0, max - CUT_MARK.length).replace(/[\ud800-\udbff]$/, '')}${CUT_MARK}`

/** Cuts a text to a number of bytes, between two characters. */
function cutBytes(text: string, max: number): string {
  if (Buffer.byteLength(text) <= max) return text
  const bytes = Buffer.from(text).subarray(0, max - Buffer.byteLength(CUT_MARK))
  // An incomplete last character decodes to a replacement character.
  return `${bytes.toString('utf8').replace(/\ufffd$/, '')}${CUT_MARK}`
}

/** Feishu and WeCom read tags such as `<at …>` in a text; a provider's error must not notify the whole group. */
const withoutTags = (text: string) => text.replaceAll('<', '＜')

const SLACK_ENTITIES: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;' }
const slackText = (text: string) =>
  text.replace(/[&<>]/g, character => SLACK_ENTITIES[character] ?? character)

export const TELEGRAM_URL = 'https://api.telegram.org'

const json = (url: string, body: unknown, headers: AlertRequest['headers'] = {}): AlertRequest => ({
  url,
  headers: { 'content-type': 'application/json', ...headers },
  body: JSON.stringify(body),
})

/** The signature of a webhook (docs/reference/alerts.md: Signature). */
export const signatureOf = (secret: string, time: number, body: string) =>
  `t=${time},v1=${hmac(secret, `${time}.${body}`).digest('hex')}`

const languageText = ({ message, options }: Context) => textOf(message, options.language)

const REQUESTS: Readonly<Record<Exclude<TargetType, 'email'>, (context: Context) => AlertRequest>> = {
  webhook: ({ message, options, secrets, nowMs }) => {
    const body = JSON.stringify(webhookBodyOf(message, options.language))
    const headers = {
      'content-type': 'application/json',
      'x-sluice-delivery': String(message.id),
      'x-sluice-signature': signatureOf(secrets.secret, Math.floor(nowMs / 1000), body),
    }
    return { url: secrets.url, headers, body }
  },
  slack: context => json(context.secrets.url, { text: cut(slackText(languageText(context)), MAX_TEXT) }),
  discord: context =>
    json(context.secrets.url, {
      content: cut(languageText(context), MAX_DISCORD),
      allowed_mentions: { parse: [] },
    }),
  telegram: context => {
    const { url, bot_token } = context.secrets
    return json(`${(url || TELEGRAM_URL).replace(/\/+$/, '')}/bot${bot_token}/sendMessage`, {
      chat_id: context.options.chat_id,
      text: cut(languageText(context), MAX_TELEGRAM),
      link_preview_options: { is_disabled: true },
    })
  },
  feishu: context => {
    const { url, secret } = context.secrets
    const timestamp = String(Math.floor(context.nowMs / 1000))
    const sign = hmac(`${timestamp}\n${secret}`, '').digest('base64')
    return json(url, {
      ...(secret !== '' && { timestamp, sign }),
      msg_type: 'text',
      content: { text: cut(withoutTags(languageText(context)), MAX_TEXT) },
    })
  },
  dingtalk: context => {
    const { url, secret } = context.secrets
    const address = new URL(url)
    if (secret !== '') {
      address.searchParams.set('timestamp', String(context.nowMs))
      address.searchParams.set('sign', hmac(secret, `${context.nowMs}\n${secret}`).digest('base64'))
    }
    return json(address.href, {
      msgtype: 'text',
      text: { content: cut(languageText(context), MAX_TEXT) },
    })
  },
  wecom: context =>
    json(context.secrets.url, {
      msgtype: 'text',
      text: { content: cutBytes(withoutTags(languageText(context)), MAX_WECOM_BYTES) },
    }),
}

/** The request that sends a message to a target other than e-mail. */
export const requestOf = (target: OpenTarget, message: AlertMessage, nowMs: number): AlertRequest => {
  if (target.type === 'email') throw new Error('an e-mail is not an HTTP request')
  return REQUESTS[target.type]({ ...target, message, nowMs })
}

/** The code and message fields of services that answer 200 to a message that they refuse. */
const ANSWER_FIELDS: Readonly<Partial<Record<TargetType, readonly [code: string, message: string]>>> = {
  feishu: ['code', 'msg'],
  dingtalk: ['errcode', 'errmsg'],
  wecom: ['errcode', 'errmsg'],
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    // Not JSON: reported as a refusal by the caller.
    return undefined
  }
}

/** Why a service has not accepted a message; undefined if it has. */
export function refusalOf(
  type: TargetType,
  { status, text }: { readonly status: number; readonly text: string },
): string | undefined {
  if (status < 200 || status > 299) return `status ${status}: ${text}`
  const fields = ANSWER_FIELDS[type]
  if (!fields) return undefined
  const answer = parsed(text)
  if (!isObject(answer)) return `status ${status} without a JSON answer: ${text}`
  const [code, message] = fields
  // Feishu's older API answers with StatusCode instead of code.
  const number = answer[code] ?? answer.StatusCode
  return number === 0 ? undefined : `${code} ${String(number)}: ${String(answer[message] ?? text)}`
}
