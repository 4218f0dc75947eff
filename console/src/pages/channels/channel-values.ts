import type { Channel, ChannelType } from '../../api/contract.ts'
import { changedFields } from '../../api/form.ts'
import { splitKeys } from './channel-types.ts'
import type { MappingRow } from './model-mapping.tsx'

/** The values of the channel form, as text. */
export type ChannelValues = {
  name: string
  key: string
  keyMode: 'multi_to_single' | 'batch'
  base_url: string
  /** Provider-specific fields, by name. */
  own: Record<string, string>
  models: string[]
  model_mapping: MappingRow[]
  priority: string
  weight: string
  tag: string
  auto_ban: boolean
  allow_routing_fields: boolean
  test_model: string
  param_override: string
  header_override: string
  status_code_mapping: string
  rpm: string
  tpm: string
  concurrency: string
  remark: string
} & Record<NetworkField, string>

/** Members of `setting` about the connections of the channel. Empty: as the gateway connects everywhere. */
export const NETWORK_FIELDS = ['proxy', 'ip_family', 'ca', 'client_cert', 'client_key'] as const
export type NetworkField = (typeof NETWORK_FIELDS)[number]

const jsonText = (object: object | undefined) =>
  object && Object.keys(object).length > 0 ? JSON.stringify(object, null, 2) : ''
const limitText = (limit: number | null | undefined) => (limit ? String(limit) : '')

/** Provider-specific fields that the API has at the top level instead of inside `setting`. */
const BESIDE = new Set(['base_url', 'openai_organization'])
const ownFields = (type: ChannelType | undefined) =>
  (type?.fields ?? []).filter(({ name }) => name !== 'base_url')

const networkValues = (channel: Channel | undefined) =>
  Object.fromEntries(NETWORK_FIELDS.map(name => [name, String(channel?.setting[name] ?? '')])) as Record<
    NetworkField,
    string
  >

const allowsRouting = (channel: Channel | undefined) => channel?.setting.allow_routing_fields === true

export function valuesOf(channel: Channel | undefined, type: ChannelType | undefined): ChannelValues {
  const beside = (channel ?? {}) as unknown as Record<string, unknown>
  return {
    name: channel?.name ?? type?.name ?? '',
    key: '',
    keyMode: 'multi_to_single',
    base_url: channel?.base_url ?? '',
    own: Object.fromEntries(
      ownFields(type).map(({ name }) => [
        name,
        String((BESIDE.has(name) ? beside[name] : channel?.setting[name]) ?? ''),
      ]),
    ),
    models: channel?.models ?? [],
    model_mapping: Object.entries(channel?.model_mapping ?? {}).map(([from, to]) => ({ from, to })),
    priority: String(channel?.priority ?? 0),
    weight: String(channel?.weight ?? 1),
    tag: channel?.tag ?? '',
    auto_ban: channel ? channel.auto_ban === 1 : true,
    allow_routing_fields: allowsRouting(channel),
    test_model: channel?.test_model ?? '',
    param_override: jsonText(channel?.param_override),
    header_override: jsonText(channel?.header_override),
    status_code_mapping: jsonText(channel?.status_code_mapping),
    rpm: limitText(channel?.limits.rpm),
    tpm: limitText(channel?.limits.tpm),
    concurrency: limitText(channel?.limits.concurrency),
    remark: channel?.remark ?? '',
    ...networkValues(channel),
  }
}

const limitOf = (text: string) => (text.trim() === '' ? null : Number(text))

function ownOf(values: ChannelValues, channel: Channel | undefined) {
  const filled = Object.entries(values.own)
  const setting = filled.filter(([name]) => !BESIDE.has(name))
  const { allow_routing_fields } = values
  const isSwitched = allow_routing_fields !== allowsRouting(channel)
  const before = networkValues(channel)
  const network = NETWORK_FIELDS.filter(name => values[name] !== before[name])
  return {
    ...Object.fromEntries(filled.filter(([name]) => BESIDE.has(name))),
    ...(setting.length === 0 && !isSwitched && network.length === 0
      ? {}
      : {
          setting: {
            ...channel?.setting,
            ...Object.fromEntries(setting.filter(([name, value]) => value !== '' || channel?.setting[name])),
            ...(isSwitched && { allow_routing_fields }),
            ...Object.fromEntries(network.map(name => [name, values[name]])),
          },
        }),
  }
}

/** The channel as the API expects it. Mapped names are added to the model list. */
export function bodyOf(values: ChannelValues, channel?: Channel) {
  const mapped = values.model_mapping.filter(({ from, to }) => from.trim() !== '' && to.trim() !== '')
  return {
    name: values.name,
    ...(values.key.trim() === '' ? {} : { key: values.key.trim() }),
    base_url: values.base_url.trim(),
    ...ownOf(values, channel),
    models: [...new Set([...values.models, ...mapped.map(({ from }) => from.trim())])],
    model_mapping: Object.fromEntries(mapped.map(({ from, to }) => [from.trim(), to.trim()])),
    priority: Number(values.priority),
    weight: Number(values.weight),
    tag: values.tag.trim(),
    auto_ban: values.auto_ban,
    test_model: values.test_model,
    param_override: values.param_override.trim() || {},
    header_override: values.header_override.trim() || {},
    status_code_mapping: values.status_code_mapping.trim() || {},
    limits: { rpm: limitOf(values.rpm), tpm: limitOf(values.tpm), concurrency: limitOf(values.concurrency) },
    remark: values.remark,
  }
}

export type ChannelFormBody = ReturnType<typeof bodyOf>

export const changesOf = (values: ChannelValues, before: ChannelValues, channel: Channel) =>
  changedFields<ChannelFormBody>(bodyOf(values, channel), bodyOf(before, channel))

export const modeOf = ({ key, keyMode }: ChannelValues) =>
  splitKeys(key).length > 1 ? keyMode : ('single' as const)
