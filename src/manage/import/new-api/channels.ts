import { CHANNEL_STATUS } from '../../../domain/channel.ts'
import { KEY_STATUS } from '../../../domain/channel-key.ts'
import { isObject } from '../../../domain/json-object.ts'
import type { SourceChannel, SourceKey } from '../inventory.ts'
import type { ImportNotes } from '../notes.ts'
import {
  boundedOf,
  lineOf,
  namesOf,
  objectOf,
  quoted,
  type SourceRow,
  textOf,
  timeOf,
  wholeOf,
} from '../values.ts'
import { NAMED_URLS, OTHER_KEY_FORMAT, typeHere } from './channel-types.ts'

export const CHANNEL_COLUMNS = [
  'type',
  'key',
  'open_ai_organization',
  'test_model',
  'status',
  'name',
  'weight',
  'created_time',
  'base_url',
  'other',
  'models',
  'group',
  'model_mapping',
  'status_code_mapping',
  'priority',
  'auto_ban',
  'other_info',
  'tag',
  'setting',
  'settings',
  'param_override',
  'header_override',
  'remark',
  'channel_info',
  'config',
  'system_prompt',
] as const

const MAX_RANK = 1_000_000_000
const MAX_REMARK = 255
const CUSTOM = 8
const VERTEX = 41
const BEDROCK = 33

/** Switches of `setting` and `settings` that have no effect here, and whose absence changes no answer. */
const HARMLESS = new Set([
  'force_format',
  'http_protocol',
  'http2_connection_shards',
  'upstream_model_update_check_enabled',
  'upstream_model_update_auto_sync_enabled',
  'upstream_model_update_last_check_time',
  'disable_task_polling_sleep',
  'vertex_key_type',
  'aws_key_type',
])
/** Switches of `setting` that change what is sent, or where. */
const ESSENTIAL = ['system_prompt'] as const

export type ChannelReading = {
  readonly variant: 'new-api' | 'one-api'
  readonly notes: Pick<ImportNotes, 'note' | 'count'>
}

type Warn = (message: string) => void

const isSet = (value: unknown) =>
  value !== undefined && value !== null && value !== '' && value !== false && value !== 0

/** JSON with a key a line, or one array; without the flag the whole text is one key. */
function keyTexts(text: string, isMulti: boolean): string[] {
  if (!isMulti) return [text.trim()]
  if (text.trim().startsWith('[')) {
    try {
      const parsed: unknown = JSON.parse(text)
      if (Array.isArray(parsed))
        return parsed.map(entry => (isObject(entry) ? JSON.stringify(entry) : textOf(entry).trim()))
    } catch {
      // Not an array: a key a line.
    }
  }
  return text
    .replace(/^\n+|\n+$/g, '')
    .split('\n')
    .map(line => line.trim())
}

/** The keys with their states, which the other gateway counts by line. */
function keysOf(text: string, info: Readonly<Record<string, unknown>>): SourceKey[] {
  const isMulti = info.is_multi_key === true
  const listOf = (name: string) => (isObject(info[name]) ? (info[name] as Record<string, unknown>) : {})
  const states = listOf('multi_key_status_list')
  const reasons = listOf('multi_key_disabled_reason')
  const times = listOf('multi_key_disabled_time')
  const keys = new Map<string, SourceKey>()
  for (const [index, key] of keyTexts(text, isMulti).entries()) {
    if (key === '' || keys.has(key)) continue
    const status = boundedOf(states[index], 1, 3, KEY_STATUS.enabled)
    keys.set(key, {
      key,
      status: isMulti ? status : KEY_STATUS.enabled,
      reason: status === KEY_STATUS.enabled ? '' : lineOf(reasons[index], 200),
      disabledTime: status === KEY_STATUS.enabled ? 0 : timeOf(times[index]),
    })
  }
  return [...keys.values()]
}

/** Fields of one-api that are in `config`: an additional field of the vendor, and the parts of a key. */
function oneApiParts(row: SourceRow, type: number) {
  const config = objectOf(row.config) ?? {}
  const part = (name: string) => textOf(config[name]).trim()
  const other =
    textOf(row.other) ||
    part('api_version') ||
    part('region') ||
    part('user_id') ||
    part('plugin') ||
    part('library_id')
  if (type === VERTEX && part('vertex_ai_adc') !== '')
    return { other: part('region') || other, key: part('vertex_ai_adc') }
  if (type === BEDROCK && textOf(row.key).trim() === '')
    return { other, key: [part('ak'), part('sk'), part('region')].join('|') }
  return { other, key: textOf(row.key) }
}

/** The names of switches that are on and have no counterpart here. */
function switchesOf(row: SourceRow, warn: Warn): { setting: Record<string, unknown>; unsupported: string[] } {
  const setting = objectOf(row.setting)
  const settings = objectOf(row.settings)
  const unsupported = ESSENTIAL.filter(name => isSet(setting?.[name])).map(name => `setting.${name}`)
  if (isSet(textOf(row.system_prompt).trim())) unsupported.push('system_prompt')
  if (setting === undefined || settings === undefined) unsupported.push('setting (no valid JSON)')
  const others = Object.entries({ ...setting, ...settings })
    .filter(([name, value]) => isSet(value) && name !== 'proxy' && !HARMLESS.has(name))
    .map(([name]) => name)
    .filter(name => !(ESSENTIAL as readonly string[]).includes(name))
  if (others.length > 0) warn(`these settings have no effect here: ${others.map(lineNames).join(', ')}`)
  // The other switches are not stored: one of the same name may get another meaning here.
  const proxy = textOf(setting?.proxy).trim()
  return { setting: proxy === '' ? {} : { proxy }, unsupported }
}

const lineNames = (name: string) => lineOf(name, 60)

/** The URL as our channels take it. */
function baseUrlOf(row: SourceRow, { baseUrl = '' }: { readonly baseUrl?: string }): string {
  const url = textOf(row.base_url).trim()
  if (url === '') return baseUrl
  if (Object.hasOwn(NAMED_URLS, url)) return NAMED_URLS[url] ?? ''
  return url
}

/** An object of JSON that a channel cannot be used without. */
function essentialObject(
  row: SourceRow,
  name: string,
  unsupported: string[],
): Record<string, unknown> | undefined {
  const text = textOf(row[name]).trim()
  // The older form of an override is a list.
  if (name === 'param_override' && text.startsWith('[')) {
    try {
      return { operations: JSON.parse(text) as unknown }
    } catch {
      unsupported.push(`${name} (no valid JSON)`)
      return undefined
    }
  }
  const object = objectOf(row[name])
  if (object === undefined) unsupported.push(`${name} (no valid JSON object)`)
  return object && Object.keys(object).length > 0 ? object : undefined
}

/** A channel; undefined if its type has no counterpart here. */
export function readChannel(row: SourceRow, { variant, notes }: ChannelReading): SourceChannel | undefined {
  const label = `channel ${lineOf(row.id, 30)} ${quoted(row.name)}`
  const warn: Warn = message => notes.note('channel', label, message)
  const number = boundedOf(row.type, 0, 100_000, 0)
  const here = typeHere(number, variant)
  if (!here) {
    warn(`its type ${number} has no counterpart here; it is not carried over`)
    return undefined
  }
  if (here.type === CUSTOM && number !== CUSTOM)
    warn('its type has no counterpart; it becomes a Custom channel')
  const { setting, unsupported } = switchesOf(row, warn)
  const info = variant === 'new-api' ? (objectOf(row.channel_info) ?? {}) : {}
  const parts =
    variant === 'one-api' ? oneApiParts(row, here.type) : { other: textOf(row.other), key: textOf(row.key) }
  const url = baseUrlOf(row, here)
  // A Custom channel of new-api has the whole URL, which # marks here.
  const isWhole = variant === 'new-api' && number === CUSTOM && url !== ''
  if (OTHER_KEY_FORMAT.has(here.type) && parts.key.includes('|'))
    unsupported.push('its key is for another protocol of the vendor; enter the key of the HTTP API')
  const status = boundedOf(row.status, 0, 9, CHANNEL_STATUS.disabled)
  const statusReason = lineOf(objectOf(row.other_info)?.status_reason, 500)
  const organization = textOf(row.open_ai_organization).trim()
  const statusMapping = objectOf(row.status_code_mapping)
  if (statusMapping === undefined) warn('its status_code_mapping is left out: it is no valid JSON object')
  return {
    sourceId: textOf(row.id),
    anchor: timeOf(row.created_time) === 0 ? '' : String(timeOf(row.created_time)),
    label,
    type: here.type,
    fields: {
      name: lineOf(row.name, 100) || `channel-${lineOf(row.id, 30)}`,
      base_url: isWhole ? `${url}#` : url,
      models: namesOf(row.models),
      model_mapping: essentialObject(row, 'model_mapping', unsupported),
      priority: boundedOf(row.priority, -MAX_RANK, MAX_RANK, 0),
      // Weights of one-api are stored, but its channels of one priority are equal.
      weight: variant === 'one-api' ? 0 : boundedOf(row.weight, 0, MAX_RANK, 0),
      tag: lineOf(row.tag, 100) || null,
      group: namesOf(row.group).join(',') || 'default',
      auto_ban: wholeOf(row.auto_ban) === 0n ? 0 : 1,
      test_model: lineOf(row.test_model, 255),
      param_override: essentialObject(row, 'param_override', unsupported),
      header_override: essentialObject(row, 'header_override', unsupported),
      status_code_mapping: statusMapping,
      setting,
      openai_organization: organization,
      other: parts.other,
      remark: [...textOf(row.remark)].slice(0, MAX_REMARK).join(''),
    },
    keys: keysOf(parts.key, info),
    isMulti: info.is_multi_key === true,
    status: status in { 1: 1, 2: 2, 3: 3 } ? status : CHANNEL_STATUS.disabled,
    statusReason: status === CHANNEL_STATUS.disabledByGateway ? statusReason : '',
    createdTime: timeOf(row.created_time),
    unsupported,
  }
}
