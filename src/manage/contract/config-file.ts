import { z } from 'zod'
import { CHANNEL_NAME_LENGTH } from '../../domain/channel.ts'
import { SETTINGS, type Setting } from '../../domain/setting.ts'
import { alertContract } from './alerts.ts'
import { aliasContract } from './aliases.ts'
import { channelFields } from './channel-fields.ts'
import { optional, text } from './fields.ts'
import { priceContract } from './prices.ts'
import { tokenContract } from './tokens.ts'
import { userContract } from './users.ts'

/**
 * The configuration file of `sluice apply` (docs/reference/configuration-file.md: Sections). Every item has the fields of
 * its route; `sluice apply` validates it with the route's own schema as well.
 */

const MAX_ITEMS = 20_000
const MAX_KEYS = 1_000

const secret = (what: string) => `${what}: \`env:NAME\` or \`file:PATH\``

const channelItem = z.strictObject({
  ...channelFields,
  name: text({ min: 1, max: CHANNEL_NAME_LENGTH }),
  key: optional(z.string()).describe(secret('The key of the provider')),
  keys: optional(z.array(z.string().min(1)).min(1).max(MAX_KEYS)).describe(
    secret('Several keys, instead of `key`; each'),
  ),
})

const aliasItem = z.strictObject({
  ...aliasContract.createAlias.body.shape,
  channels: optional(z.array(z.string()).max(1_000)).describe('Names of channels, instead of `channel_ids`'),
})

const priceItem = z.strictObject(priceContract.createPrice.body.shape)

const { id: _userId, revoke_access_tokens: _revoke, ...userFields } = userContract.updateUser.body.shape
const userItem = z.strictObject({
  ...userFields,
  username: userContract.createUser.body.shape.username,
  password: optional(z.string()).describe(secret('Used only when the user is created')),
  quota: userFields.quota.describe('Used only when the user is created'),
})

const { id: _tokenId, ...tokenFields } = tokenContract.updateToken.body.shape
const tokenItem = z.strictObject({
  ...tokenFields,
  name: tokenContract.createToken.body.shape.name,
  username: optional(z.string()).describe('The owner; default: root'),
  remain_quota: tokenFields.remain_quota.describe('Used only when the token is created'),
})

const ruleItem = z.strictObject({
  ...alertContract.createAlertRule.body.shape,
  targets: optional(z.array(z.string()).max(100)).describe('Names of targets, instead of `target_ids`'),
  subjects: optional(z.array(z.string()).max(100)).describe(
    'Names of channels, or usernames, instead of `subject_ids`',
  ),
})
const targetItem = z.strictObject({
  ...alertContract.createAlertTarget.body.shape,
  url: optional(z.string()).describe(secret('The address')),
  secret: optional(z.string()).describe(secret('The secret')),
  bot_token: optional(z.string()).describe(secret('The bot token')),
})

const settingItem = z.strictObject({
  key: z.enum(Object.keys(SETTINGS) as [string, ...string[]]),
  value: z.union([z.string(), z.number(), z.boolean()]).nullable(),
})

function settingSchema(setting: Setting): z.ZodType {
  const { en: help } = setting.help
  switch (setting.type) {
    case 'boolean':
      return z.boolean().nullish().describe(help)
    case 'integer':
      return z.int().min(setting.range[0]).max(setting.range[1]).nullish().describe(help)
    case 'number':
      return z.number().min(setting.range[0]).max(setting.range[1]).nullish().describe(help)
    case 'text':
      return z.string().nullish().describe(help)
  }
}
const settingMap = z.strictObject(
  Object.fromEntries(Object.entries(SETTINGS).map(([key, setting]) => [key, settingSchema(setting)])),
)

const items = <T extends z.ZodType>(item: T) => z.array(item).max(MAX_ITEMS).nullish()

/** The whole file, for editors. */
export const configFile = z.strictObject({
  version: z.literal(1),
  settings: z.union([settingMap, z.array(settingItem)]).nullish(),
  channels: items(channelItem),
  aliases: items(aliasItem),
  prices: items(priceItem),
  users: items(userItem),
  tokens: items(tokenItem),
  alerts: items(z.union([ruleItem, targetItem])),
})

/** The schema of an item of each section. An alert with a `kind` is a rule, one without is a target. */
export const CONFIG_ITEMS = {
  setting: settingItem,
  channel: channelItem,
  alias: aliasItem,
  price: priceItem,
  user: userItem,
  token: tokenItem,
  alert_rule: ruleItem,
  alert_target: targetItem,
} as const

/** The file as a whole is checked first; its items are checked one by one, so that errors name the field. */
export const configOutline = z.strictObject({
  version: z.literal(1, { error: 'must be 1' }),
  settings: z.union([z.record(z.string(), z.unknown()), items(z.record(z.string(), z.unknown()))]).nullish(),
  channels: items(z.record(z.string(), z.unknown())),
  aliases: items(z.record(z.string(), z.unknown())),
  prices: items(z.record(z.string(), z.unknown())),
  users: items(z.record(z.string(), z.unknown())),
  tokens: items(z.record(z.string(), z.unknown())),
  alerts: items(z.record(z.string(), z.unknown())),
})
export type ConfigOutline = z.output<typeof configOutline>

/** The JSON schema of the file, for editors. */
export const configSchema = () => ({
  title: 'Sluice configuration',
  ...z.toJSONSchema(configFile, { io: 'input', unrepresentable: 'any', target: 'draft-2020-12' }),
})
