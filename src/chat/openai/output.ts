import { compact, type FieldReader } from '../hub/fields.ts'
import type { Output } from '../hub/hub.ts'

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
