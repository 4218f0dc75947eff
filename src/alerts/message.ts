import { alertKind, describeAlert, type Notice, timeText } from '../domain/alert.ts'
import type { Language } from '../domain/setting.ts'

/** The alerts that are sent to a target together. */
export type AlertMessage = {
  /** The number of the delivery; 0 for a test. It stays the same when the delivery is retried. */
  readonly id: number
  readonly time: number
  /** The machine that sends it. */
  readonly machine: string
  readonly notices: readonly Notice[]
  /** Further notices that are only counted. */
  readonly omitted: number
}

/** The notices that a text lists; further ones are counted. */
const MAX_LISTED = 20

const TEXTS = {
  en: {
    firing: 'Firing',
    still_firing: 'Still firing',
    resolved: 'Resolved',
    since: 'Since',
    rule: 'Rule',
    more: (count: number) => `and ${count} more`,
    counts: (firing: number, resolved: number) =>
      [firing > 0 ? `${firing} firing` : '', resolved > 0 ? `${resolved} resolved` : '']
        .filter(part => part !== '')
        .join(', '),
    test: 'Test message: this target works.',
  },
  'zh-CN': {
    firing: '告警',
    still_firing: '仍在告警',
    resolved: '已恢复',
    since: '开始于',
    rule: '规则',
    more: (count: number) => `另有 ${count} 条`,
    counts: (firing: number, resolved: number) =>
      [firing > 0 ? `${firing} 条告警` : '', resolved > 0 ? `${resolved} 条已恢复` : '']
        .filter(part => part !== '')
        .join('，'),
    test: '测试消息：此目标可用。',
  },
} as const

const isFiring = ({ state }: Notice) => state !== 'resolved'

/** The first line of a message. */
export function subjectOf({ notices, omitted, machine }: AlertMessage, language: Language): string {
  const texts = TEXTS[language]
  const [first] = notices
  const start = `[Sluice ${machine}]`
  if (!first) return `${start} ${texts.test}`
  if (notices.length === 1 && omitted === 0)
    return `${start} ${texts[first.state]}: ${describeAlert(first, language).title}`
  const firing = notices.filter(isFiring).length
  const more = omitted > 0 ? ` (${texts.more(omitted)})` : ''
  return `${start} ${texts.counts(firing, notices.length - firing)}${more}`
}

function linesOf(notice: Notice, language: Language, isAlone: boolean): string[] {
  const texts = TEXTS[language]
  const { title, detail } = describeAlert(notice, language)
  return [
    ...(isAlone ? [] : [`${texts[notice.state]}: ${title}`]),
    ...(detail !== '' && isFiring(notice) ? [detail] : []),
    `${texts.since} ${timeText(notice.since)} · ${texts.rule}: ${notice.rule}`,
  ]
}

/** The text after the first line. */
export function bodyOf({ notices, omitted }: AlertMessage, language: Language): string {
  const listed = notices.slice(0, MAX_LISTED)
  const rest = notices.length - listed.length + omitted
  const isAlone = notices.length === 1 && omitted === 0
  const blocks = listed.map(notice => linesOf(notice, language, isAlone).join('\n'))
  if (rest > 0) blocks.push(TEXTS[language].more(rest))
  return blocks.join('\n\n')
}

/** The whole text of a message. */
export const textOf = (message: AlertMessage, language: Language): string =>
  `${subjectOf(message, language)}\n${bodyOf(message, language)}`.trimEnd()

/** The body of a webhook (docs/reference/alerts.md: Webhook body). */
export const webhookBodyOf = (message: AlertMessage, language: Language) => ({
  id: message.id,
  time: message.time,
  machine: message.machine,
  test: message.notices.length === 0,
  title: subjectOf(message, language),
  alerts: message.notices.map(notice => ({
    state: notice.state,
    kind: notice.kind,
    level: alertKind(notice.kind).level,
    rule_id: notice.rule_id,
    rule: notice.rule,
    subject: notice.subject,
    ...describeAlert(notice, language),
    since: notice.since,
    time: notice.time,
    values: notice.values,
  })),
  omitted: message.omitted,
})
