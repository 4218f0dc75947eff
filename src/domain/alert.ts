import type { Language } from './setting.ts'

type Wording = Readonly<Record<Language, string>>

/** A number of a rule: its default and its bounds, which are both allowed. */
type RuleNumber = {
  readonly default: number
  readonly range: readonly [min: number, max: number]
  readonly unit: Wording
}

type AlertKindEntry = {
  readonly level: 'error' | 'warning'
  readonly label: Wording
  /** What the rule observes. */
  readonly help: Wording
  /** The first line of a message; `{…}` are values of the observation. */
  readonly title: Wording
  readonly detail: Wording
  readonly threshold?: RuleNumber
  readonly window?: RuleNumber
  /** With fewer requests in the window, a rate means nothing. */
  readonly minRequests?: RuleNumber
  /** The default of `for_seconds`. */
  readonly forSeconds: number
  /** What `subject_ids` may contain. */
  readonly subjects?: 'channel' | 'user'
  /** Each machine observes itself, instead of one machine for all. */
  readonly isLocal?: true
}

const SECONDS: Wording = { en: 's', 'zh-CN': '秒' }
const PERCENT: Wording = { en: '%', 'zh-CN': '%' }
const USD: Wording = { en: 'USD', 'zh-CN': '美元' }
const HOURS: Wording = { en: 'hours', 'zh-CN': '小时' }
const REQUESTS: Wording = { en: 'requests', 'zh-CN': '个请求' }
const MINUTE_S = 60
const HOUR_S = 3600
const DAY_S = 86_400

const RATE_WINDOW: RuleNumber = { default: 5 * MINUTE_S, range: [MINUTE_S, HOUR_S], unit: SECONDS }
const RATE_MIN_REQUESTS: RuleNumber = { default: 20, range: [1, 1_000_000], unit: REQUESTS }

/** The kinds of alert rules (docs/reference/alerts.md: Kinds of rules). */
export const ALERT_KINDS = {
  channel_disabled: {
    level: 'error',
    label: { en: 'Channel auto-disabled', 'zh-CN': '渠道被自动禁用' },
    help: {
      en: 'The gateway disabled a channel. It resolves when the channel is enabled again.',
      'zh-CN': '网关禁用了渠道；渠道重新启用后恢复。',
    },
    title: { en: 'Channel "{name}" was auto-disabled', 'zh-CN': '渠道“{name}”已被自动禁用' },
    detail: { en: '{reason}', 'zh-CN': '{reason}' },
    forSeconds: 0,
    subjects: 'channel',
  },
  key_disabled: {
    level: 'warning',
    label: { en: 'Channel key auto-disabled', 'zh-CN': '渠道密钥被自动禁用' },
    help: {
      en: 'The gateway disabled a key of an enabled channel. It resolves when the key is enabled or replaced.',
      'zh-CN': '网关禁用了已启用渠道的一个密钥；密钥启用或更换后恢复。',
    },
    title: {
      en: 'Key {position} of channel "{name}" was auto-disabled',
      'zh-CN': '渠道“{name}”的密钥 {position} 已被自动禁用',
    },
    detail: { en: '{reason}', 'zh-CN': '{reason}' },
    forSeconds: 0,
    subjects: 'channel',
  },
  error_rate: {
    level: 'error',
    label: { en: 'Error rate', 'zh-CN': '错误率' },
    help: {
      en: 'The share of requests that providers failed, of all channels together or of each selected channel.',
      'zh-CN': '供应商处理失败的请求占比，统计全部渠道或每个选定的渠道。',
    },
    title: { en: 'Error rate of {name}: {rate} %', 'zh-CN': '{name} 的错误率：{rate} %' },
    detail: {
      en: '{count} of {total} requests failed in the last {window} s.',
      'zh-CN': '最近 {window} 秒的 {total} 个请求中有 {count} 个失败。',
    },
    threshold: { default: 20, range: [0.1, 100], unit: PERCENT },
    window: RATE_WINDOW,
    minRequests: RATE_MIN_REQUESTS,
    forSeconds: MINUTE_S,
    subjects: 'channel',
  },
  rejection_rate: {
    level: 'warning',
    label: { en: 'Rejection rate', 'zh-CN': '拒绝率' },
    help: {
      en: 'The share of requests of known tokens that the gateway rejected, for example for a missing balance or a rate limit.',
      'zh-CN': '网关拒绝的已知令牌请求占比，例如余额不足或超过速率限制。',
    },
    title: { en: 'Rejection rate: {rate} %', 'zh-CN': '拒绝率：{rate} %' },
    detail: {
      en: '{count} of {total} requests were rejected in the last {window} s.',
      'zh-CN': '最近 {window} 秒的 {total} 个请求中有 {count} 个被拒绝。',
    },
    threshold: { default: 50, range: [0.1, 100], unit: PERCENT },
    window: RATE_WINDOW,
    minRequests: RATE_MIN_REQUESTS,
    forSeconds: MINUTE_S,
  },
  balance_low: {
    level: 'warning',
    label: { en: 'Low balance', 'zh-CN': '余额不足' },
    help: {
      en: 'The balance of an enabled user who has received credit is below the threshold.',
      'zh-CN': '已充值的启用用户余额低于阈值。',
    },
    title: {
      en: 'Balance of user "{name}" is low: {left} USD',
      'zh-CN': '用户“{name}”余额不足：{left} 美元',
    },
    detail: { en: 'The threshold is {threshold} USD.', 'zh-CN': '阈值为 {threshold} 美元。' },
    threshold: { default: 1, range: [0.000001, 1_000_000_000], unit: USD },
    forSeconds: 0,
    subjects: 'user',
  },
  balance_runway: {
    level: 'warning',
    label: { en: 'Balance runway', 'zh-CN': '余额可用时间' },
    help: {
      en: 'At the spending of the last day, the balance of a user lasts for fewer hours than the threshold.',
      'zh-CN': '按最近一天的消费速度，用户余额可用的小时数低于阈值。',
    },
    title: {
      en: 'Balance of user "{name}" lasts for {hours} more hours',
      'zh-CN': '用户“{name}”的余额还可用 {hours} 小时',
    },
    detail: {
      en: '{left} USD are left. The user spent {spent} USD in the last {window} s.',
      'zh-CN': '剩余 {left} 美元；最近 {window} 秒消费 {spent} 美元。',
    },
    threshold: { default: 24, range: [0.1, 10_000], unit: HOURS },
    window: { default: DAY_S, range: [HOUR_S, 30 * DAY_S], unit: SECONDS },
    forSeconds: 0,
    subjects: 'user',
  },
  suspense_open: {
    level: 'warning',
    label: { en: 'Unresolved charges', 'zh-CN': '待定扣费' },
    help: {
      en: 'Unresolved charges add up to the threshold or more. With 0, any unresolved charge counts.',
      'zh-CN': '待定扣费合计达到阈值；0 表示任何待定扣费。',
    },
    title: { en: 'Unresolved charges: {count}', 'zh-CN': '待定扣费：{count} 笔' },
    detail: {
      en: 'They add up to {amount} USD. Resolve them on the page Ledger.',
      'zh-CN': '合计 {amount} 美元；请在“账本”页面处理。',
    },
    threshold: { default: 0, range: [0, 1_000_000_000], unit: USD },
    forSeconds: 0,
  },
  verify_failed: {
    level: 'error',
    label: { en: 'Verification failed', 'zh-CN': '校验失败' },
    help: {
      en: 'The last verification of the ledger, by command or API, found a fault.',
      'zh-CN': '最近一次账本校验（命令或 API）发现问题。',
    },
    title: { en: 'The verification of the ledger failed', 'zh-CN': '账本校验失败' },
    detail: { en: '{fault}', 'zh-CN': '{fault}' },
    forSeconds: 0,
  },
  disk_low: {
    level: 'error',
    label: { en: 'Low disk space', 'zh-CN': '磁盘空间不足' },
    help: {
      en: 'The disk of the data directory has less free space than the threshold.',
      'zh-CN': '数据目录所在磁盘的可用空间低于阈值。',
    },
    title: { en: 'Disk of {machine}: {free} MiB free', 'zh-CN': '{machine} 的磁盘剩余 {free} MiB' },
    detail: {
      en: 'The threshold is {threshold} MiB. A full disk stops new requests.',
      'zh-CN': '阈值为 {threshold} MiB；磁盘写满后会拒绝新请求。',
    },
    threshold: { default: 2_048, range: [1, 1_000_000_000], unit: { en: 'MiB', 'zh-CN': 'MiB' } },
    forSeconds: 0,
    isLocal: true,
  },
  price_missing: {
    level: 'warning',
    label: { en: 'Price missing', 'zh-CN': '缺少价格' },
    help: {
      en: 'An enabled channel serves a model without a price.',
      'zh-CN': '启用的渠道提供了未定价的模型。',
    },
    title: { en: 'Model "{name}" has no price', 'zh-CN': '模型“{name}”没有价格' },
    detail: {
      en: 'Requests for it are rejected, unless the setting allow_unpriced_models is on.',
      'zh-CN': '除非开启 allow_unpriced_models，否则其请求会被拒绝。',
    },
    forSeconds: 0,
  },
  key_expiring: {
    level: 'warning',
    label: { en: 'Token expiring', 'zh-CN': '令牌即将过期' },
    help: {
      en: 'An API token or system access token expires within the threshold, or has expired in the last week.',
      'zh-CN': 'API 令牌或系统访问令牌将在阈值内过期，或在最近一周内已过期。',
    },
    title: {
      en: '{what} "{name}" of {owner} expires at {time}',
      'zh-CN': '{owner} 的{what}“{name}”于 {time} 过期',
    },
    detail: { en: 'Extend it or create a new one.', 'zh-CN': '请延长有效期或创建新的令牌。' },
    threshold: { default: 168, range: [1, 8_760], unit: HOURS },
    forSeconds: 0,
    subjects: 'user',
  },
  journal_lag: {
    level: 'error',
    label: { en: 'Journal lag', 'zh-CN': '日志写入延迟' },
    help: {
      en: 'Settled requests wait longer than the threshold until they are written to the store.',
      'zh-CN': '已结算的请求等待写入数据库的时间超过阈值。',
    },
    title: {
      en: 'Settled requests of {machine} have been waiting for the store for {lag} s',
      'zh-CN': '{machine} 的已结算请求等待写入数据库已 {lag} 秒',
    },
    detail: {
      en: 'The threshold is {threshold} s. The store is slow or was unavailable.',
      'zh-CN': '阈值为 {threshold} 秒；数据库缓慢或曾不可用。',
    },
    threshold: { default: 30, range: [1, 86_400], unit: SECONDS },
    forSeconds: 0,
    isLocal: true,
  },
  worker_restarted: {
    level: 'error',
    label: { en: 'Worker restarted', 'zh-CN': '工作进程重启' },
    help: {
      en: 'As many workers as the threshold ended unexpectedly in the window and were replaced.',
      'zh-CN': '时间窗口内意外结束并被替换的工作进程数达到阈值。',
    },
    title: {
      en: 'Workers of {machine} ended unexpectedly: {count}',
      'zh-CN': '{machine} 有 {count} 个工作进程意外结束',
    },
    detail: {
      en: 'In the last {window} s. The last one: worker {slot}, {how}.',
      'zh-CN': '最近 {window} 秒；最后一个：工作进程 {slot}，{how}。',
    },
    threshold: { default: 1, range: [1, 1_000], unit: { en: 'exits', 'zh-CN': '次' } },
    window: { default: 10 * MINUTE_S, range: [MINUTE_S, DAY_S], unit: SECONDS },
    forSeconds: 0,
    isLocal: true,
  },
} as const satisfies Readonly<Record<string, AlertKindEntry>>

export type AlertKind = keyof typeof ALERT_KINDS
export const ALERT_KIND_NAMES = Object.keys(ALERT_KINDS) as [AlertKind, ...AlertKind[]]
/** The entry of a kind, with every optional property. */
export const alertKind = (kind: AlertKind): AlertKindEntry => ALERT_KINDS[kind]

/** Bounds of a rule and a target. */
export const ALERT_LIMITS = {
  rules: 200,
  targets: 100,
  forSeconds: DAY_S,
  repeatSeconds: 30 * DAY_S,
  groupSeconds: HOUR_S,
  recipients: 20,
} as const

/** The stored part of a rule besides its name and kind. Absent numbers do not apply to the kind. */
export type RuleOptions = {
  readonly threshold: number | null
  readonly window_seconds: number | null
  readonly min_requests: number | null
  readonly for_seconds: number
  /** 0: no reminder. */
  readonly repeat_seconds: number
  /** Null: every enabled target. */
  readonly target_ids: readonly number[] | null
  /** Channels or users, by the kind; empty: all. */
  readonly subject_ids: readonly number[]
  /** `HH:MM`; null: no quiet hours. */
  readonly quiet_from: string | null
  readonly quiet_to: string | null
  readonly time_zone: string
}

export type AlertRule = RuleOptions & {
  readonly id: number
  readonly name: string
  readonly kind: AlertKind
}

export function defaultRuleOptions(kind: AlertKind): RuleOptions {
  const { threshold, window, minRequests, forSeconds } = alertKind(kind)
  return {
    threshold: threshold?.default ?? null,
    window_seconds: window?.default ?? null,
    min_requests: minRequests?.default ?? null,
    for_seconds: forSeconds,
    repeat_seconds: DAY_S,
    target_ids: null,
    subject_ids: [],
    quiet_from: null,
    quiet_to: null,
    time_zone: 'UTC',
  }
}

/** Where alerts are sent, and the fields that each type takes. */
export const TARGET_TYPES = {
  webhook: { label: { en: 'Webhook', 'zh-CN': 'Webhook' }, fields: ['url', 'secret'] },
  email: { label: { en: 'E-mail', 'zh-CN': '电子邮件' }, fields: ['to'] },
  slack: { label: { en: 'Slack', 'zh-CN': 'Slack' }, fields: ['url'] },
  discord: { label: { en: 'Discord', 'zh-CN': 'Discord' }, fields: ['url'] },
  telegram: { label: { en: 'Telegram', 'zh-CN': 'Telegram' }, fields: ['bot_token', 'chat_id', 'url'] },
  feishu: { label: { en: 'Feishu (Lark)', 'zh-CN': '飞书' }, fields: ['url', 'secret'] },
  dingtalk: { label: { en: 'DingTalk', 'zh-CN': '钉钉' }, fields: ['url', 'secret'] },
  wecom: { label: { en: 'WeCom', 'zh-CN': '企业微信' }, fields: ['url'] },
} as const satisfies Readonly<
  Record<string, { readonly label: Wording; readonly fields: readonly TargetField[] }>
>
export type TargetField = 'url' | 'secret' | 'to' | 'bot_token' | 'chat_id'
export type TargetType = keyof typeof TARGET_TYPES
export const TARGET_TYPE_NAMES = Object.keys(TARGET_TYPES) as [TargetType, ...TargetType[]]

/** The parts of a target that are not secret. */
export type TargetOptions = {
  readonly language: Language
  /** How long a message waits for further alerts. */
  readonly group_seconds: number
  readonly to: readonly string[]
  readonly chat_id: string
}

/** The secret parts of a target; empty if the type has none. */
export type TargetSecrets = { readonly url: string; readonly secret: string; readonly bot_token: string }

/** A condition that a rule observed for one subject, such as a channel. */
export type Observation = {
  readonly subject: string
  readonly values: Readonly<Record<string, string>>
}

/** One line of a message: a subject's alert starts, continues or ends. */
export type Notice = {
  readonly state: 'firing' | 'still_firing' | 'resolved'
  readonly kind: AlertKind
  readonly rule_id: number
  readonly rule: string
  readonly subject: string
  readonly since: number
  readonly time: number
  readonly values: Readonly<Record<string, string>>
}

export const DELIVERY_STATUSES = ['pending', 'sent', 'dead'] as const
export type DeliveryStatus = (typeof DELIVERY_STATUSES)[number]

/** A time in the text of an alert, to the minute. */
export const timeText = (time: number) =>
  `${new Date(time * 1000).toISOString().slice(0, 16).replace('T', ' ')} UTC`

const filled = (template: string, values: Readonly<Record<string, string>>) =>
  template.replaceAll(/\{(\w+)\}/g, (_whole, name: string) => values[name] ?? '')

/** The title and detail of an alert in a language. */
export const describeAlert = (
  { kind, values }: Pick<Notice, 'kind' | 'values'>,
  language: Language,
): { readonly title: string; readonly detail: string } => {
  const { title, detail } = alertKind(kind)
  return { title: filled(title[language], values), detail: filled(detail[language], values).trim() }
}
