import { compact, type FieldReader } from '../hub/fields.ts'
import type { Output } from '../hub/hub.ts'

/** `wantedIn` finds the schema and what is said about it. */
export function decodeOutput(
  format: FieldReader | undefined,
  wantedIn: (format: FieldReader) => FieldReader,
): Output | undefined {
  const type = format?.text('type')
  if (type === 'json_object') return { type: 'json' }
  if (format === undefined || type !== 'json_schema') return undefined
  const wanted = wantedIn(format)
  return compact<Output & { type: 'schema' }>({
    type: 'schema',
    schema: wanted.object('schema') ?? {},
    name: wanted.text('name'),
    description: wanted.text('description'),
    strict: wanted.flag('strict'),
  })
}
