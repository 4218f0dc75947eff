import { z } from 'zod'
import { CHANNEL_NAME_LENGTH } from '../../domain/channel.ts'
import { limits, limitsView, nameList, optional, text } from './fields.ts'

/** Fields of a channel, also in the forms that existing clients send (docs/reference/management-api.md: Channels). */

/** An object, or its JSON text as existing clients send it. The handlers validate its content. */
export const objectOrText = z.union([z.record(z.string(), z.unknown()), z.string()], {
  error: 'must be an object, or the JSON text of one',
})

const MAX_RANK = 1_000_000_000
export const priority = z.int().min(-MAX_RANK).max(MAX_RANK)
export const weight = z.int().min(0).max(MAX_RANK)

const ENABLED = new Set<unknown>([1, 'enabled'])
const settable = z.union([z.literal(1), z.literal(2), z.enum(['enabled', 'disabled'])], {
  error: 'must be 1 or "enabled", 2 or "disabled"',
})
export const status = settable.transform(value => (ENABLED.has(value) ? 1 : 2))
/** Accepts 3, which only the gateway sets, because clients send the whole object back. */
const statusSentBack = z
  .union([settable, z.literal(3)], { error: 'must be 1 or "enabled", 2 or "disabled"' })
  .transform(value => (value === 3 ? undefined : ENABLED.has(value) ? 1 : 2))

const flag = z
  .union([z.boolean(), z.literal(0), z.literal(1)], { error: 'must be 0 or 1, or a boolean' })
  .transform(value => (value === true || value === 1 ? 1 : 0))

/** No comma: names of groups are joined by it. */
const groupName = text({ min: 1, max: 64 }).refine(name => !name.includes(','), 'must not contain a comma')
/** One name, several separated by commas, or an array; stored as one text. */
export const group = z
  .union([z.array(groupName).max(100), text({ max: 1_000 })], {
    error: 'must be a string, or an array of strings',
  })
  .transform(value =>
    (typeof value === 'string' ? value.split(',') : value)
      .map(name => name.trim())
      .filter(name => name !== '')
      .join(','),
  )

export const tag = text({ max: 100 })

/** Sent as a header. */
const headerText = text({ max: 255 }).regex(/^[\x20-\x7e]*$/, 'must be plain ASCII')

export const channelFields = {
  name: optional(text({ min: 1, max: CHANNEL_NAME_LENGTH })),
  type: optional(z.int().describe('One of GET /api/channel/types')),
  key: optional(
    z
      .string()
      .describe(
        'One key, or several separated by commas or line breaks, depending on `mode`; an empty or masked key changes nothing',
      ),
  ),
  base_url: optional(text({ max: 2_048 })),
  models: optional(nameList),
  model_mapping: optional(objectOrText),
  priority: optional(priority),
  weight: optional(weight),
  status: optional(statusSentBack),
  tag: tag.nullish(),
  group: optional(group),
  auto_ban: optional(flag),
  test_model: optional(text({ max: 255 })),
  param_override: optional(objectOrText),
  header_override: optional(objectOrText),
  status_code_mapping: optional(objectOrText),
  setting: optional(objectOrText),
  openai_organization: optional(headerText),
  other: optional(text({ max: 8_192, lines: true })),
  remark: optional(text({ max: 255, lines: true })),
  limits: optional(limits),
}
const channel = z.object(channelFields)
export type ChannelInput = z.output<typeof channel>

const mode = z.enum(['single', 'batch', 'multi_to_single'])

/** The channel inside `channel`, or flat beside `mode` (docs/reference/management-api.md: Channels). */
export const channelCreated = z
  .object({ mode: optional(mode), channel: optional(channel), ...channelFields })
  .transform(({ mode = 'single', channel: inner, ...flat }, context) => {
    if (inner !== undefined) return { mode, channel: inner, at: 'channel.' }
    if (Object.values(flat).every(value => value === undefined))
      context.addIssue({ code: 'custom', path: ['channel'], message: 'is required' })
    return { mode, channel: flat, at: '' }
  })

const object = z.record(z.string(), z.unknown())

export const channelView = z
  .object({
    id: z.int(),
    name: z.string(),
    type: z.int(),
    key: z.string().describe('Masked; several keys are separated by line breaks'),
    keys: z.array(
      z.object({
        index: z.int(),
        key: z.string().describe('Masked'),
        status: z.int(),
        reason: z.string(),
        disabled_time: z.int(),
      }),
    ),
    base_url: z.string().describe('Empty: the default URL of the provider'),
    models: z.array(z.string()),
    model_mapping: z.record(z.string(), z.string()),
    priority: z.int(),
    weight: z.int(),
    status: z.int().describe('1 enabled, 2 disabled by hand, 3 disabled by the gateway'),
    status_reason: z.string(),
    tag: z.string().nullable(),
    group: z.string(),
    created_time: z.int(),
    test_time: z.int(),
    response_time: z.int().describe('Latency of the last test, in milliseconds'),
    used_quota: z.int(),
    vendor_cost: z.string().describe('Cost of its requests in USD as the provider reports it'),
    vendor_cost_difference: z
      .string()
      .describe(
        'Provider-reported cost minus the charges for the same requests, in USD; above 0, the provider bills more than is charged',
      ),
    auto_ban: z.int().describe('1: the gateway may auto-disable the channel'),
    test_model: z.string(),
    param_override: object,
    header_override: object,
    status_code_mapping: object,
    setting: object,
    openai_organization: z.string(),
    other: z.string(),
    remark: z.string(),
    limits: limitsView,
    channel_info: z.object({
      is_multi_key: z.boolean(),
      multi_key_size: z.int(),
      multi_key_status_list: z
        .record(z.string(), z.int())
        .nullable()
        .describe('Keys that are not enabled, by index; null for a channel of one key'),
      multi_key_mode: z.string(),
    }),
    state: z
      .enum(['enabled', 'disabled', 'auto_disabled', 'cooling_down', 'trial'])
      .describe('As requests find it now. `trial`: its cooldown has ended, and the next request decides'),
    cooldown_until: z.int().nullable().describe('Unix seconds'),
    cooldown_reason: z.string().describe('The failure that started the cooldown; empty without one'),
  })
  .meta({ id: 'Channel' })
