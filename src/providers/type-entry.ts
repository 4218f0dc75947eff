import type { Operation } from '../domain/operation.ts'
import { baseUrlField } from './fields.ts'
import { formatsOf, offersOf } from './offers.ts'
import type { FormatName, Provider } from './provider.ts'

/** One entry of `/api/channel/types`. */
export type TypeEntry = {
  readonly type: number
  readonly name: string
  readonly base_url: string
  readonly operations: readonly Operation[]
  readonly formats: readonly FormatName[]
  readonly fields: readonly FieldEntry[]
  readonly lists_models: boolean
  readonly key_hint: string
}

export type FieldEntry = {
  readonly name: string
  readonly label: string
  readonly required: boolean
  readonly secret: boolean
  readonly help: string
}

export function typeEntry(provider: Provider): TypeEntry {
  return {
    type: provider.type,
    name: provider.name,
    base_url: provider.baseUrl ?? '',
    operations: offersOf(provider),
    formats: formatsOf(provider),
    fields: fieldsOf(provider),
    lists_models: provider.models !== undefined,
    key_hint: provider.keyHint,
  }
}

function fieldsOf(provider: Provider): FieldEntry[] {
  const fields = provider.fields ?? []
  const needsBaseUrl = provider.baseUrl === undefined
  const names = fields.map(field => field.name)
  const all =
    needsBaseUrl && !names.includes('base_url') ? [baseUrlField('URL of the server.'), ...fields] : fields
  return all.map(({ name, label, help, required = false, secret = false }) => ({
    name,
    label,
    required: required || (needsBaseUrl && name === 'base_url'),
    secret,
    help,
  }))
}
