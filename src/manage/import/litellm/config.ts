import { CHANNEL_STATUS, TIMEOUTS } from '../../../domain/channel.ts'
import { isKeyFile } from '../../../domain/import.ts'
import { isObject, type JsonObject } from '../../../domain/json-object.ts'
import type { PriceInput } from '../../../domain/price.ts'
import type { Digest } from '../../../identity/credentials.ts'
import { shippedPrice } from '../../../providers/prices/shipped.ts'
import type { SourceChannel, SourcePrice } from '../inventory.ts'
import type { ImportNotes } from '../notes.ts'
import { boundedOf, lineOf, quoted, textOf } from '../values.ts'
import { isCost, readStatedPrice } from './costs.ts'
import { readProviderModel, TYPES } from './providers.ts'

const MAX_RANK = 1_000_000_000
const FRACTION_FACTOR = 1000
const UNRESOLVED = /^os\.environ\//

/** Parameters that are carried over, or have no effect on what is sent. */
const CARRIED = new Set([
  'model',
  'custom_llm_provider',
  'api_key',
  'api_base',
  'base_url',
  'api_version',
  'organization',
  'rpm',
  'tpm',
  'weight',
  'order',
  'timeout',
  'request_timeout',
  'stream_timeout',
  'max_retries',
  'num_retries',
  'max_parallel_requests',
  'aws_access_key_id',
  'aws_secret_access_key',
  'aws_session_token',
  'aws_region_name',
  'vertex_project',
  'vertex_location',
  'vertex_credentials',
  'drop_params',
  'mock_response',
])

const objectAt = (object: JsonObject, name: string): JsonObject =>
  isObject(object[name]) ? object[name] : {}

/** One entry of `model_list`. */
type Deployment = {
  readonly name: string
  readonly model: string
  readonly provider: string
  readonly type: number
  readonly params: JsonObject
  readonly info: JsonObject
}

function readDeployments(config: JsonObject, notes: ImportNotes): Deployment[] {
  const list = Array.isArray(config.model_list) ? config.model_list : []
  return list.flatMap((entry: unknown, index): Deployment[] => {
    const skip = (why: string) => {
      notes.count('deployments', 'skipped')
      notes.note('channel', `model_list ${index + 1}`, `is not carried over: ${why}`)
      return []
    }
    if (!isObject(entry)) return skip('it is no object')
    const name = textOf(entry.model_name).trim()
    const params = objectAt(entry, 'litellm_params')
    const text = textOf(params.model).trim()
    if (name === '' || text === '') return skip('it has no model_name or no litellm_params.model')
    if (name.includes('*') || text.includes('*'))
      return skip(`${quoted(name)} is a wildcard; list its models in a channel`)
    const { provider, model, type } = readProviderModel(text, textOf(params.custom_llm_provider).trim())
    if (type === undefined)
      return skip(`the provider ${quoted(provider)} of ${quoted(name)} has no counterpart here`)
    const others = Object.keys(params).filter(param => !CARRIED.has(param) && !isCost(param))
    if (others.length > 0)
      notes.note(
        'channel',
        `model_list ${index + 1} ${quoted(name)}`,
        `these parameters are not carried over: ${others.map(param => lineOf(param, 40)).join(', ')}`,
      )
    return [{ name, model, provider, type, params, info: objectAt(entry, 'model_info') }]
  })
}

/** The key as our channels of the type take it. */
function keyOf({ type, params }: Deployment): string {
  const text = (name: string) => textOf(params[name]).trim()
  if (type === TYPES.BEDROCK && text('aws_access_key_id') !== '') {
    const session = text('aws_session_token')
    return [
      text('aws_access_key_id'),
      text('aws_secret_access_key'),
      text('aws_region_name'),
      ...(session === '' ? [] : [session]),
    ].join('|')
  }
  if (type === TYPES.VERTEX && text('vertex_credentials') !== '') return text('vertex_credentials')
  return text('api_key')
}

/** Why the key of a channel is not known here; undefined if it is. The key may be a reference that was not resolved. */
function missingKeyOf(type: number, key: string): string | undefined {
  if (UNRESOLVED.test(key))
    return `the environment variable ${lineOf(key.replace(UNRESOLVED, ''), 60)} with its key is not set`
  if (type === TYPES.VERTEX && isKeyFile(key))
    return `the file ${lineOf(key, 300)} with its key cannot be read, or is no file of a service account`
  return undefined
}

/** A channel of the common format if the address is not the vendor's own. */
function typeWithUrl({ type, params }: Deployment): { type: number; url: string } {
  const url = (textOf(params.api_base) || textOf(params.base_url)).trim()
  const isOwn = url === '' || /^https:\/\/api\.openai\.com(\/|$)/.test(url)
  return { type: type === TYPES.OPENAI && !isOwn ? TYPES.CUSTOM : type, url }
}

function timeoutsOf(params: JsonObject): JsonObject {
  const seconds = Number(params.timeout ?? params.request_timeout)
  const [, max] = TIMEOUTS.total_ms
  return Number.isFinite(seconds) && seconds > 0
    ? { timeouts: { total_ms: Math.min(max, Math.ceil(seconds * 1000)) } }
    : {}
}

const weightNumber = ({ params }: Deployment): number => {
  const number = Number(textOf(params.weight).trim() || 0)
  return Number.isFinite(number) && number > 0 ? number : 0
}

/** Weights may be fractions there. They are whole numbers here, so all are multiplied if one is a fraction. */
const weightFactorOf = (deployments: readonly Deployment[]): number =>
  deployments.some(deployment => !Number.isInteger(weightNumber(deployment))) ? FRACTION_FACTOR : 1

function weightOf(deployment: Deployment, factor: number): number {
  const weight = weightNumber(deployment)
  return weight === 0 ? 0 : Math.min(MAX_RANK, Math.max(1, Math.round(weight * factor)))
}

/** The parameters that deployments of one channel have in common. */
function sharedOf(deployment: Deployment, weightFactor: number) {
  const { params } = deployment
  const { type, url } = typeWithUrl(deployment)
  const whole = (name: string, max: number) => boundedOf(params[name], 0, max, 0)
  const limit = (name: string) => whole(name, MAX_RANK) || null
  return {
    type,
    base_url: url,
    key: keyOf(deployment),
    other:
      textOf(params.api_version).trim() ||
      textOf(params.vertex_location).trim() ||
      (type === TYPES.BEDROCK ? textOf(params.aws_region_name).trim() : ''),
    openai_organization: textOf(params.organization).trim(),
    // A lower order comes first there, a higher priority here.
    priority: -whole('order', MAX_RANK),
    weight: weightOf(deployment, weightFactor) || whole('rpm', MAX_RANK) || whole('tpm', MAX_RANK),
    limits: {
      rpm: limit('rpm'),
      tpm: limit('tpm'),
      concurrency: whole('max_parallel_requests', 1_000_000) || null,
    },
    setting: timeoutsOf(params),
  }
}

/** Channels: deployments that differ only in their models share one. */
export function readConfigChannels(
  config: JsonObject,
  { digest, notes }: { readonly digest: Digest; readonly notes: ImportNotes },
): SourceChannel[] {
  type Group = { shared: ReturnType<typeof sharedOf>; provider: string; models: Map<string, string> }
  const groups: Group[] = []
  const deployments = readDeployments(config, notes)
  const weightFactor = weightFactorOf(deployments)
  for (const deployment of deployments) {
    const shared = sharedOf(deployment, weightFactor)
    const { name, model, provider } = deployment
    const text = JSON.stringify(shared)
    // A second deployment of the same name is another channel: a channel sends a name to one model.
    const group = groups.find(other => JSON.stringify(other.shared) === text && !other.models.has(name))
    if (group) group.models.set(name, model)
    else groups.push({ shared, provider, models: new Map([[name, model]]) })
  }
  const counts = new Map<string, number>()
  const ids = new Map<string, number>()
  return groups.map(({ shared, provider, models }) => {
    const { key, type, ...fields } = shared
    const number = (counts.get(provider) ?? 0) + 1
    counts.set(provider, number)
    const name = number === 1 ? provider : `${provider} ${number}`
    const label = `channel ${quoted(name)}`
    const identityWithoutKey = `${type} ${fields.base_url} ${fields.other}`
    const identity = `${identityWithoutKey} ${digest(`import ${key}`).slice(0, 16)}`
    const repeat = (ids.get(identity) ?? 0) + 1
    ids.set(identity, repeat)
    const mapping = Object.fromEntries([...models].filter(([from, to]) => from !== to))
    const missing = missingKeyOf(type, key)
    if (missing !== undefined) notes.note('channel', label, missing)
    return {
      sourceId: repeat === 1 ? identity : `${identity} ${repeat}`,
      identityWithoutKey,
      isKeyUnknown: missing !== undefined,
      anchor: '',
      label,
      type,
      fields: {
        ...fields,
        name,
        models: [...models.keys()],
        ...(Object.keys(mapping).length > 0 && { model_mapping: mapping }),
        tag: 'litellm',
      },
      keys:
        key === '' || missing !== undefined
          ? []
          : [{ key, status: CHANNEL_STATUS.enabled, reason: '', disabledTime: 0 }],
      isMulti: false,
      status: CHANNEL_STATUS.enabled,
      statusReason: '',
      createdTime: 0,
      unsupported: [],
    }
  })
}

/** Prices that the configuration states, or that follow from `base_model`. */
export function readConfigPrices(config: JsonObject, notes: ImportNotes, nowMs: number): SourcePrice[] {
  const prices = new Map<string, PriceInput>()
  const silent = { ...notes, note() {}, count() {} }
  for (const deployment of readDeployments(config, silent)) {
    const { name, info } = deployment
    const { price, omitted } = readStatedPrice(deployment.params, info)
    if (omitted.length > 0)
      notes.note(
        'price',
        `price of ${quoted(name)}`,
        `these costs are not carried over: ${omitted.map(cost => lineOf(cost, 60)).join(', ')}`,
      )
    const earlier = prices.get(name)
    if (price && earlier && JSON.stringify(earlier) !== JSON.stringify(price))
      notes.note(
        'price',
        `price of ${quoted(name)}`,
        'differs between its deployments; that of the first is used',
      )
    if (price && !earlier) prices.set(name, price)
    const base = textOf(info.base_model).replace(/^[^/]*\//, '')
    if (!price && base !== '' && !shippedPrice(name, nowMs) && !shippedPrice(deployment.model, nowMs))
      notes.note(
        'price',
        `price of ${quoted(name)}`,
        `is that of its base_model ${quoted(base)} there; create an alias or a price for it here`,
      )
  }
  return [...prices].map(([model, price]) => ({ model, price }))
}

/** The models of `model_info.access_groups`, by group. */
export function readAccessGroups(config: JsonObject): ReadonlyMap<string, readonly string[]> {
  const groups = new Map<string, string[]>()
  for (const entry of Array.isArray(config.model_list) ? (config.model_list as unknown[]) : []) {
    if (!isObject(entry)) continue
    const { access_groups: names } = objectAt(entry, 'model_info')
    const model = textOf(entry.model_name).trim()
    for (const name of Array.isArray(names) ? names.map(textOf) : [])
      groups.set(name, [...new Set([...(groups.get(name) ?? []), model])])
  }
  return groups
}

/** Aliases of `router_settings.model_group_alias`. */
export function readAliases(config: JsonObject): { name: string; target: string }[] {
  const aliases = objectAt(objectAt(config, 'router_settings'), 'model_group_alias')
  return Object.entries(aliases).flatMap(([name, value]) => {
    const target = textOf(isObject(value) ? value.model : value).trim()
    return target === '' ? [] : [{ name: name.trim(), target }]
  })
}

/** Notes about settings of the router that have no counterpart. */
export function noteSettings(config: JsonObject, notes: ImportNotes): void {
  const router = objectAt(config, 'router_settings')
  const settings = objectAt(config, 'litellm_settings')
  const note = (subject: string, message: string) => notes.note('source', subject, message)
  const strategy = textOf(router.routing_strategy)
  if (strategy !== '' && strategy !== 'simple-shuffle')
    note('router_settings.routing_strategy', `is ${quoted(strategy)}; here weights decide within a priority`)
  for (const name of [
    'fallbacks',
    'context_window_fallbacks',
    'content_policy_fallbacks',
    'default_fallbacks',
  ])
    if (router[name] !== undefined || settings[name] !== undefined)
      note(
        name,
        'are not carried over. Here a request goes on to the next channel of the same model: list the model in a further channel of lower priority, with a mapping',
      )
  for (const name of ['num_retries', 'allowed_fails', 'cooldown_time', 'timeout'])
    if (router[name] !== undefined)
      note(`router_settings.${name}`, 'is not carried over; see the settings of the gateway')
  for (const name of ['callbacks', 'success_callback', 'failure_callback', 'cache', 'guardrails'])
    if (settings[name] !== undefined || config[name] !== undefined)
      note(`litellm_settings.${name}`, 'has no counterpart here')
}

/** The master key, which is a key of the relay there too; empty if it is not known. */
export function masterKeyOf(config: JsonObject): string {
  const key = textOf(objectAt(config, 'general_settings').master_key).trim()
  return UNRESOLVED.test(key) ? '' : key
}
