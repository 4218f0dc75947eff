import type { z } from 'zod'
import { keyFault, MAX_KEYS } from '../../domain/channel-key.ts'
import { Refusal } from '../../domain/errors.ts'
import type { AddressPolicy } from '../../http/upstream-address.ts'
import { providerOf } from '../../providers/index.ts'
import { DEFAULTS, readFields } from '../channels/channel-fields.ts'
import { mustHaveKey } from '../channels/channel-keys.ts'
import { type ChannelInput, channelFields } from '../contract/channel-fields.ts'
import { MAX_NAMES } from '../contract/fields.ts'
import type { SourceChannel, SourceKey } from './inventory.ts'
import { lineOf } from './values.ts'

/** Validates an imported channel by the rules of `/api/channel/`, and leaves out what breaks them. */

/** Without one of these, a channel would send other requests, or to another place. */
const ESSENTIAL: ReadonlySet<string> = new Set([
  'model_mapping',
  'param_override',
  'header_override',
  'openai_organization',
  'other',
  'setting',
])
/** Every field may be left out once, and a field may be refused together with another. */
const MAX_TRIES = 40

const schemas: Readonly<Record<string, z.ZodType>> = channelFields

type ChannelColumns = ReturnType<typeof readFields>
export type ChannelCheck =
  | {
      readonly columns: ChannelColumns
      readonly keys: readonly SourceKey[]
      /** Reasons why the channel must be disabled. */
      readonly reasons: readonly string[]
    }
  | { readonly refusal: string }

type Warn = (message: string) => void

/** Why a field was refused, without the values of the source. */
const faultOf = (error: Refusal) => {
  const [first] = error.errors ?? []
  return {
    field: (first?.path ?? '').split('.')[0] ?? '',
    message: lineOf(first?.message ?? error.message, 200),
  }
}

function readModels(value: unknown, warn: Warn): string[] {
  const names = (Array.isArray(value) ? value : []) as string[]
  const usable = names.filter(name => schemas.models?.safeParse([name]).success).slice(0, MAX_NAMES)
  if (usable.length < names.length)
    warn(`lists ${names.length} models, of which ${usable.length} can be carried over`)
  return usable
}

function usableKeys(keys: readonly SourceKey[], warn: Warn): SourceKey[] {
  const usable = keys.filter(({ key }, index) => {
    const fault = keyFault(key)
    if (fault) warn(`its key ${index + 1} ${fault}; it is left out`)
    return fault === undefined
  })
  if (usable.length > MAX_KEYS) warn(`has ${usable.length} keys; the first ${MAX_KEYS} are carried over`)
  return usable.slice(0, MAX_KEYS)
}

/** The columns of the channel. A field that is refused is left out with a warning; the channel is then disabled. */
export function checkChannel(channel: SourceChannel, policy: AddressPolicy, warn: Warn): ChannelCheck {
  const provider = providerOf(channel.type)
  if (!provider) return { refusal: 'its type has no counterpart here' }
  const reasons = channel.unsupported.map(name => `not supported: ${name}`)
  const leaveOut = (field: string, message: string) => {
    warn(`its ${field} is left out: ${message}`)
    if (ESSENTIAL.has(field)) reasons.push(`${field} was not imported`)
  }
  const input: Record<string, unknown> = { type: channel.type }
  for (const [field, value] of Object.entries({
    ...channel.fields,
    models: readModels(channel.fields.models, warn),
  })) {
    const parsed = schemas[field]?.safeParse(value)
    if (parsed?.success) input[field] = parsed.data
    else leaveOut(field, lineOf(parsed?.error.issues[0]?.message ?? 'is unknown', 200))
  }
  const keys = usableKeys(channel.keys, warn)
  try {
    mustHaveKey(provider, keys.length, 'key')
  } catch {
    return { refusal: 'it has no key' }
  }
  for (let tries = 0; tries < MAX_TRIES; tries++)
    try {
      const current = { ...DEFAULTS, type: undefined }
      return {
        columns: readFields(input as Partial<ChannelInput>, { current, at: '', policy }),
        keys,
        reasons,
      }
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
      const { field, message } = faultOf(error)
      // Without its address the channel would send its key to the vendor's default one.
      if (field === 'base_url' || !(field in input)) return { refusal: `its ${field} ${message}` }
      delete input[field]
      leaveOut(field, message)
    }
  return { refusal: 'too many of its fields are refused' }
}
