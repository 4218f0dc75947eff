import { maskSmtpUrl, parseSender, parseSmtpUrl } from './smtp.ts'
import { codePoints, hasControl } from './text.ts'

/** The languages of the console. */
export type Language = 'en' | 'zh-CN'
type Wording = Readonly<Record<Language, string>>

/** `name` is the unit in the API. A unit without a label is part of the setting's own label. */
type Unit = { readonly name: string; readonly label?: Wording }

const MILLISECONDS: Unit = { name: 'ms', label: { en: 'ms', 'zh-CN': '毫秒' } }
const DAYS: Unit = { name: 'days', label: { en: 'days', 'zh-CN': '天' } }
const MEGABYTES: Unit = { name: 'mb', label: { en: 'MB', 'zh-CN': 'MB' } }

/** The characters of a text setting without a limit of its own. */
export const DEFAULT_MAX_LENGTH = 255

type Kind =
  | { readonly type: 'boolean'; readonly default: boolean }
  | {
      readonly type: 'text'
      readonly default: string
      readonly maxLength?: number
      /** Why a value is invalid; undefined if it is valid. */
      readonly fault?: (value: string) => string | undefined
      /** The value contains a secret: it is stored encrypted, and only the masked value is shown. */
      readonly mask?: (value: string) => string
    }
  | {
      readonly type: 'integer'
      readonly default: number
      /** Both bounds are allowed values. */
      readonly range: readonly [min: number, max: number]
      readonly unit: Unit
    }
  | {
      readonly type: 'number'
      readonly default: number
      readonly range: readonly [min: number, max: number]
    }

/** A runtime setting, which Root changes while the gateway runs. The API, the console and `docs/` are generated from it. */
export type Setting = Kind & { readonly label: Wording; readonly help: Wording }
export type SettingTable = Readonly<Record<string, Setting>>
export type SettingValue = string | number | boolean

/** Every runtime setting (docs/reference/management-api.md: Runtime settings). */
export const SETTINGS = {
  allow_unpriced_models: {
    type: 'boolean',
    default: false,
    label: { en: 'Allow models without pricing', 'zh-CN': '允许未定价的模型' },
    help: {
      en: 'Serve models without a price free of charge, and mark those requests. When off, requests for them are rejected.',
      'zh-CN': '免费提供未定价的模型并标记这些请求；关闭时拒绝对它们的请求。',
    },
  },
  default_video_model: {
    type: 'text',
    default: '',
    label: { en: 'Default video model', 'zh-CN': '默认视频模型' },
    help: {
      en: 'Used for video jobs without a model. Leave blank to reject them.',
      'zh-CN': '用于未指定模型的视频任务；留空则拒绝。',
    },
  },
  default_moderation_model: {
    type: 'text',
    default: '',
    label: { en: 'Default moderation model', 'zh-CN': '默认审核模型' },
    help: {
      en: 'Used for moderation requests without a model. Leave blank to use the first available of omni-moderation-latest, text-moderation-latest and text-moderation-stable.',
      'zh-CN':
        '用于未指定模型的审核请求；留空则依次使用 omni-moderation-latest、text-moderation-latest、text-moderation-stable 中第一个可用的模型。',
    },
  },
  registration: {
    type: 'boolean',
    default: false,
    label: { en: 'Open registration', 'zh-CN': '开放注册' },
    help: {
      en: 'Let visitors create an account, with the role User and no credit.',
      'zh-CN': '允许访客注册账户，角色为用户，余额为零。',
    },
  },
  attempts: {
    type: 'integer',
    default: 5,
    range: [1, 50],
    unit: { name: 'attempts' },
    label: { en: 'Max attempts', 'zh-CN': '最大尝试次数' },
    help: {
      en: 'How many channels a request may try at most, including the first.',
      'zh-CN': '一个请求最多尝试多少个渠道（包括第一个）。',
    },
  },
  early_headers_ms: {
    type: 'integer',
    default: 30_000,
    range: [0, 600_000],
    unit: MILLISECONDS,
    label: { en: 'Stream keep-alive delay', 'zh-CN': '流式保活延迟' },
    help: {
      en: 'How long a stream waits for its first event before the gateway sends headers and a keep-alive comment. 0 waits without limit.',
      'zh-CN': '流式请求等待首个事件多久后，网关先发送响应头和保活注释；0 表示一直等待。',
    },
  },
  expose_provider_messages: {
    type: 'boolean',
    default: false,
    label: { en: 'Expose provider messages', 'zh-CN': '向客户端显示供应商信息' },
    help: {
      en: 'If all channels fail, clients get the message of the last provider. It may contain organization IDs.',
      'zh-CN': '所有渠道均失败时，把最后一个供应商的信息发给客户端；其中可能包含组织 ID。',
    },
  },
  allow_lossy: {
    type: 'boolean',
    default: false,
    label: { en: 'Leave out unsupported content', 'zh-CN': '省略不支持的内容' },
    help: {
      en: 'If a channel does not accept an image, audio, video or file of a request, send the request without it and add a warning. When off, other channels are tried, and the request is rejected if none accepts it.',
      'zh-CN':
        '渠道不接受请求中的图片、音频、视频或文件时，省略该内容后发送并附上警告；关闭时尝试其他渠道，若都不接受则拒绝请求。',
    },
  },
  log_requests: {
    type: 'number',
    default: 1,
    range: [0, 1],
    label: { en: 'Request log lines', 'zh-CN': '请求日志行比例' },
    help: {
      en: 'The share of API requests that get a line in the log output of the gateway, at the level info. 1 logs all, 0 none.',
      'zh-CN': '在网关日志输出中写一行（info 级别）的 API 请求所占比例；1 表示全部，0 表示不写。',
    },
  },
  smtp_url: {
    type: 'text',
    default: '',
    fault: value => {
      const parsed = parseSmtpUrl(value)
      return 'fault' in parsed ? parsed.fault : undefined
    },
    mask: maskSmtpUrl,
    label: { en: 'Mail server', 'zh-CN': '邮件服务器' },
    help: {
      en: 'The server for alerts by e-mail: smtps://user:password@host:465, or smtp://user:password@host:587 with STARTTLS. The password is stored encrypted.',
      'zh-CN':
        '用于邮件告警的服务器：smtps://user:password@host:465，或使用 STARTTLS 的 smtp://user:password@host:587。密码加密存储。',
    },
  },
  smtp_from: {
    type: 'text',
    default: '',
    fault: value =>
      parseSender(value) ? undefined : 'must be an address such as Sluice <alerts@example.com>',
    label: { en: 'Sender of e-mails', 'zh-CN': '发件人' },
    help: {
      en: 'The sender of alerts by e-mail, for example Sluice <alerts@example.com>.',
      'zh-CN': '邮件告警的发件人，例如 Sluice <alerts@example.com>。',
    },
  },
  usage_retention_days: {
    type: 'integer',
    default: 90,
    range: [0, 36_500],
    unit: DAYS,
    label: { en: 'Log retention', 'zh-CN': '日志保留期' },
    help: {
      en: 'How long request logs are kept. 0 keeps them forever. The ledger and the audit log are always kept.',
      'zh-CN': '使用日志保留多久；0 表示永久保留。账本和审计日志始终保留。',
    },
  },
  log_bodies_models: {
    type: 'text',
    default: '',
    maxLength: 2_000,
    label: { en: 'Models whose bodies are kept', 'zh-CN': '保存正文的模型' },
    help: {
      en: 'Model names, separated by commas. Bodies of tokens and users that have opted in are kept for these models only. Leave blank for all models.',
      'zh-CN': '模型名称，以逗号分隔；仅对这些模型保存已选择加入的令牌和用户的正文。留空表示所有模型。',
    },
  },
  body_sample: {
    type: 'number',
    default: 0.01,
    range: [0, 1],
    label: { en: 'Share of sampled bodies', 'zh-CN': '正文抽样比例' },
    help: {
      en: 'The share of successful requests whose bodies are kept for tokens and users with the mode sampled.',
      'zh-CN': '对模式为抽样的令牌和用户，保存正文的成功请求所占比例。',
    },
  },
  body_retention_days: {
    type: 'integer',
    default: 7,
    range: [0, 36_500],
    unit: DAYS,
    label: { en: 'Body retention', 'zh-CN': '正文保留期' },
    help: {
      en: 'How long bodies are kept. 0 keeps them until the budget is used up.',
      'zh-CN': '正文保留多久；0 表示保留到用完预算为止。',
    },
  },
  body_budget_mb: {
    type: 'integer',
    default: 1_024,
    range: [1, 1_048_576],
    unit: MEGABYTES,
    label: { en: 'Body budget', 'zh-CN': '正文存储预算' },
    help: {
      en: 'The size of all bodies in the database. Above it the oldest bodies are deleted, within a minute.',
      'zh-CN': '数据库中所有正文的总大小；超出后在一分钟内删除最旧的正文。',
    },
  },
  body_mask_keys: {
    type: 'boolean',
    default: true,
    label: { en: 'Mask keys in bodies', 'zh-CN': '屏蔽正文中的密钥' },
    help: {
      en: 'Replace API keys, access tokens and Authorization values in bodies before they are stored.',
      'zh-CN': '在保存前替换正文中的 API 密钥、访问令牌和 Authorization 值。',
    },
  },
  body_mask_emails: {
    type: 'boolean',
    default: true,
    label: { en: 'Mask e-mail addresses in bodies', 'zh-CN': '屏蔽正文中的邮箱地址' },
    help: {
      en: 'Replace e-mail addresses in bodies before they are stored.',
      'zh-CN': '在保存前替换正文中的邮箱地址。',
    },
  },
  body_mask_cards: {
    type: 'boolean',
    default: true,
    label: { en: 'Mask card numbers in bodies', 'zh-CN': '屏蔽正文中的卡号' },
    help: {
      en: 'Replace payment card numbers in bodies before they are stored, except for their last four digits.',
      'zh-CN': '在保存前替换正文中的支付卡号，仅保留末四位。',
    },
  },
  body_mask_fields: {
    type: 'text',
    default: '',
    maxLength: 2_000,
    label: { en: 'Masked fields of bodies', 'zh-CN': '屏蔽的正文字段' },
    help: {
      en: 'Names of JSON fields whose texts are replaced in bodies before they are stored, separated by commas.',
      'zh-CN': '在保存前替换其文本的 JSON 字段名，以逗号分隔。',
    },
  },
} as const satisfies SettingTable

export type SettingKey = keyof typeof SETTINGS
type ValueOf = {
  readonly boolean: boolean
  readonly integer: number
  readonly number: number
  readonly text: string
}
/** The current value of every setting. */
export type Settings = { readonly [key in SettingKey]: ValueOf[(typeof SETTINGS)[key]['type']] }

/** Masks the value of a setting that contains a secret. Undefined: the setting contains none. */
export const settingMask = (key: SettingKey): ((value: string) => string) | undefined => {
  const setting: Setting = SETTINGS[key]
  return setting.type === 'text' ? setting.mask : undefined
}

export const isSettingKey = (key: string): key is SettingKey => Object.hasOwn(SETTINGS, key)

/** Parses a new value or returns why it is invalid. Clients of `/api/option/` send every value as text. */
export function parseSetting(
  setting: Setting,
  value: unknown,
): { readonly value: SettingValue } | { readonly fault: string } {
  switch (setting.type) {
    case 'boolean': {
      if (value === true || value === 'true') return { value: true }
      if (value === false || value === 'false') return { value: false }
      return { fault: 'must be true or false' }
    }
    case 'integer': {
      const [min, max] = setting.range
      const number = typeof value === 'string' && /^\d{1,16}$/.test(value) ? Number(value) : value
      if (typeof number === 'number' && Number.isInteger(number) && number >= min && number <= max)
        return { value: number }
      return { fault: `must be a whole number from ${min} to ${max}` }
    }
    case 'number': {
      const [min, max] = setting.range
      const number = typeof value === 'string' && /^\d{1,9}(\.\d{1,6})?$/.test(value) ? Number(value) : value
      if (typeof number === 'number' && number >= min && number <= max) return { value: number }
      return { fault: `must be a number from ${min} to ${max}` }
    }
    case 'text': {
      const { maxLength = DEFAULT_MAX_LENGTH } = setting
      const isShort = typeof value === 'string' && codePoints(value) <= maxLength
      if (!isShort || !value.isWellFormed() || hasControl(value))
        return { fault: `must be a string of at most ${maxLength} characters, without control characters` }
      const fault = setting.fault?.(value.trim())
      return fault === undefined ? { value: value.trim() } : { fault }
    }
  }
}

/** A setting as the API lists it. */
export const describeSetting = (key: string, setting: Setting, storedValue: SettingValue | undefined) => ({
  key,
  value: storedValue ?? setting.default,
  default: setting.default,
  source: storedValue === undefined ? ('default' as const) : ('set' as const),
  unit: setting.type === 'integer' ? setting.unit.name : '',
  help: setting.help.en,
})

/** The console's label and help of a setting. */
export function settingTexts(
  setting: Setting,
  language: Language,
): { readonly label: string; readonly help: string } {
  const unit = setting.type === 'integer' ? setting.unit.label?.[language] : undefined
  const label = setting.label[language]
  return { label: unit === undefined ? label : `${label} (${unit})`, help: setting.help[language] }
}
