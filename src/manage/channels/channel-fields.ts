import { invalidField } from '../../domain/errors.ts'
import { HEADER_VALUE } from '../../domain/header.ts'
import { mergeLimits } from '../../domain/limits.ts'
import { hasControl } from '../../domain/text.ts'
import { type AddressPolicy, refuseUrl } from '../../http/upstream-address.ts'
import {
  type ChannelField,
  fieldValues,
  type Provider,
  providerOf,
  typeEntry,
} from '../../providers/index.ts'
import type { ChannelRow } from '../../store/engine/schema.ts'
import type { ChannelChange } from '../../store/records/channels.ts'
import type { ChannelInput } from '../contract/channel-fields.ts'
import { checkNetwork, type ObjectField, readChannelObject } from './channel-objects.ts'

/** Parses the fields of a channel in a request into its columns. */

const MAX_OVERRIDE_BYTES = 64 * 1024
const MAX_MAPPING_BYTES = 256 * 1024
const MAX_FIELD_LENGTH = 500

/** Sent with masked secrets; a masked value in a request keeps the stored one. */
const WITH_SECRETS: ReadonlySet<ObjectField> = new Set<ObjectField>(['header_override', 'setting'])

type Json = Readonly<Record<string, unknown>>

/** The defaults of a new channel. */
export const DEFAULTS = {
  base_url: '',
  models: '[]',
  model_mapping: '{}',
  priority: 0,
  weight: 0,
  status: 1,
  status_reason: '',
  tag: null,
  channel_group: 'default',
  test_time: 0,
  response_time: 0,
  used: 0,
  vendor_cost: 0,
  vendor_compared: 0,
  auto_ban: 1,
  test_model: '',
  param_override: '{}',
  header_override: '{}',
  status_code_mapping: '{}',
  setting: '{}',
  setting_sealed: '',
  openai_organization: '',
  other: '',
  remark: '',
  limits: '{}',
  is_multi: 0,
} as const satisfies ChannelChange

/** The whole channel before the change: the stored one, or the defaults of a new one. */
export type Current = Omit<ChannelRow, 'id' | 'search' | 'created_time' | 'name' | 'type'> & {
  readonly type: number | undefined
}

type FieldReading = {
  readonly current: Current
  /** Prefix of the paths in errors: the position of the channel in the body. */
  readonly at: string
  readonly policy: AddressPolicy
}

/** The columns that change. An invalid field is refused by its path. */
export function readFields(
  input: Partial<ChannelInput>,
  { current, at, policy }: FieldReading,
): ChannelChange {
  const change: ChannelChange = {}
  const set = <Column extends keyof ChannelChange>(
    column: Column,
    value: ChannelChange[Column] | undefined,
  ) => {
    if (value !== undefined) change[column] = value
  }
  const object = (name: ObjectField, bytes = MAX_OVERRIDE_BYTES) => {
    const value = input[name]
    if (value === undefined) return
    const stored = WITH_SECRETS.has(name) ? JSON.parse(current[name]) : undefined
    change[name] = JSON.stringify(readChannelObject(name, value, { path: `${at}${name}`, bytes, stored }))
  }

  set('name', input.name)
  set('type', input.type)
  set('models', input.models && JSON.stringify(input.models))
  set('priority', input.priority)
  set('weight', input.weight)
  set('channel_group', input.group === '' ? 'default' : input.group)
  set('auto_ban', input.auto_ban)
  set('test_model', input.test_model)
  set('openai_organization', input.openai_organization)
  set('other', input.other)
  set('remark', input.remark)
  set('limits', input.limits && mergeLimits(input.limits, current.limits))
  if (input.tag !== undefined) change.tag = input.tag || null
  if (input.status !== undefined) Object.assign(change, { status: input.status, status_reason: '' })
  // An unchanged address is not validated again when the whole object is sent back.
  if (input.base_url !== undefined && input.base_url !== current.base_url)
    change.base_url = readBaseUrl(input.base_url, `${at}base_url`, policy)
  object('model_mapping', MAX_MAPPING_BYTES)
  object('param_override')
  object('header_override')
  object('status_code_mapping')
  object('setting')
  if (change.setting !== undefined && change.setting !== current.setting)
    checkNetwork(JSON.parse(change.setting), { path: `${at}setting`, policy })

  if (PROVIDER_COLUMNS.some(column => change[column] !== undefined)) {
    const provider = readProvider(change.type ?? current.type, `${at}type`)
    const setting = JSON.parse(change.setting ?? current.setting) as Record<string, unknown>
    const whole = {
      ...current,
      ...change,
      setting: withOther(provider, setting, change.other ?? current.other),
    }
    checkProviderFields(provider, whole, at)
    const stored = JSON.stringify(whole.setting)
    if (stored !== current.setting) change.setting = stored
  }
  return change
}

const PROVIDER_COLUMNS = ['type', 'base_url', 'setting', 'other', 'openai_organization'] as const

export function readProvider(type: number | undefined, path: string): Provider {
  if (type === undefined) throw invalidField(path, 'is required; GET /api/channel/types lists the types')
  const provider = providerOf(type)
  if (!provider)
    throw invalidField(path, `must be a channel type, not ${type}; GET /api/channel/types lists the types`)
  return provider
}

export function readBaseUrl(text: string, path: string, policy: AddressPolicy): string {
  // A # at the end marks a complete address; it is not a fragment.
  const refused = text === '' ? undefined : refuseUrl(text.replace(/#$/, ''), policy)
  if (refused) throw invalidField(path, refused)
  return text
}

/**
 * Existing clients send a vendor's one additional field in `other`, as text or as an object by model.
 * If `setting` lacks the vendor's field, the value of `other` is used.
 */
export function withOther(provider: Provider, setting: Json, other: string): Record<string, unknown> {
  const field = provider.fields?.find(
    ({ name, header }) => !COLUMN_FIELDS.has(name) && header === undefined,
  )?.name
  const isNamed = field === undefined || (typeof setting[field] === 'string' && setting[field] !== '')
  if (isNamed || other === '' || typeof setting[field] === 'object') return { ...setting }
  const value = defaultOf(other)
  return value === undefined ? { ...setting } : { ...setting, [field]: value }
}

function defaultOf(other: string): string | undefined {
  if (!other.startsWith('{')) return other
  try {
    const value = (JSON.parse(other) as Json).default
    return typeof value === 'string' && value !== '' ? value : undefined
  } catch {
    // Not valid JSON: there is no field to read.
    return undefined
  }
}

/** Fields of a provider that are columns of the channel; all others are in `setting`. */
const COLUMN_FIELDS: ReadonlySet<string> = new Set(['base_url', 'openai_organization'])

type WithFields = { readonly base_url: string; readonly openai_organization: string; readonly setting: Json }

export function checkProviderFields(provider: Provider, channel: WithFields, at: string): void {
  for (const { name, required } of typeEntry(provider).fields) {
    const path = COLUMN_FIELDS.has(name) ? `${at}${name}` : `${at}setting.${name}`
    const value = COLUMN_FIELDS.has(name) ? channel[name as 'base_url'] : channel.setting[name]
    const isEmpty =
      value === undefined || value === null || (typeof value === 'string' && value.trim() === '')
    if (isEmpty && required) throw invalidField(path, `is required for ${provider.name}`)
    if (isEmpty || COLUMN_FIELDS.has(name)) continue
    const fault = fieldFault(
      value,
      provider.fields?.find(field => field.name === name),
    )
    if (fault) throw invalidField(path, fault)
  }
  checkHost(provider, channel, `${at}base_url`)
  checkChatFormats(provider, channel.setting.chat_formats, `${at}setting.chat_formats`)
}

/** Only fields of the channel may be placeholders of a host: with `{model}`, a client could choose the server that gets the key. */
function checkHost(provider: Provider, { base_url, setting }: WithFields, path: string): void {
  const host = /^[a-z]+:\/\/[^/]*/i.exec(base_url)?.[0] ?? ''
  const values = fieldValues(provider, '', setting)
  for (const [placeholder, name = ''] of host.matchAll(/\{\+?(\w+)\}/g))
    if (!Object.hasOwn(values, name))
      throw invalidField(path, `must not have ${placeholder} in its host: ${provider.name} has no such field`)
}

/** The formats that a channel uses; absent, null or empty means all formats of its provider. */
function checkChatFormats(provider: Provider, formats: unknown, path: string): void {
  if (formats === undefined || formats === null) return
  const offered = Object.keys(provider.chat ?? {})
  if (!Array.isArray(formats) || formats.some(format => !offered.includes(format)))
    throw invalidField(path, `must be a list of formats of ${provider.name}: ${offered.join(', ') || 'none'}`)
}

function fieldFault(value: unknown, field: ChannelField | undefined): string | undefined {
  if (typeof value !== 'string') return 'must be a string'
  if (value.length > MAX_FIELD_LENGTH) return `must have at most ${MAX_FIELD_LENGTH} characters`
  if (hasControl(value)) return 'must not contain control characters'
  if (field?.header !== undefined && !HEADER_VALUE.test(value)) return 'must be plain ASCII'
  return undefined
}
