import { member } from '../../domain/json-value.ts'
import { compact, type FieldReader } from '../hub/fields.ts'
import type { Output } from '../hub/hub.ts'

const TYPES: readonly unknown[] = ['text', 'json_object', 'json_schema']

/** The format of an answer. Types that only some hosts have stay unread, so they are sent to no other format. */
export function formatIn(holder: FieldReader, name: string): FieldReader | undefined {
  const type = member(holder.value[name], 'type')
  return typeof type !== 'string' || TYPES.includes(type) ? holder.fields(name) : undefined
}

/** `wantedIn`: finds the object with the schema and its name. */
export function decodeOutput(
  format: FieldReader | undefined,
  wantedIn: (format: FieldReader) => FieldReader,
): Output | undefined {
  const type = format?.text('type')
  if (type === 'json_object') return { type: 'json' }
  if (format === undefined || type !== 'json_schema') return undefined
  const output = wantedIn(format)
  return compact<Output & { type: 'schema' }>({
    type: 'schema',
    schema: output.object('schema') ?? {},
    name: output.text('name'),
    description: output.text('description'),
    strict: output.flag('strict'),
  })
}
