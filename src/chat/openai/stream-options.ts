import { member } from '../../domain/json-value.ts'
import type { FieldReader } from '../hub/fields.ts'

/** The options of a stream. Translated streams have no obfuscation, so a request to omit it needs no warning. */
export function streamOptionsIn(body: FieldReader): FieldReader | undefined {
  const options = body.fields('stream_options')
  if (options !== undefined && member(options.value, 'include_obfuscation') === false)
    options.any('include_obfuscation')
  return options
}
