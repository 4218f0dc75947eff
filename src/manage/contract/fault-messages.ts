import type { z } from 'zod'

/** Descriptions of the types in schemas. */
const TYPE_DESCRIPTIONS: Readonly<Record<string, string>> = {
  string: 'a string',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
  array: 'an array',
  object: 'an object',
  record: 'an object',
}

/** What the length of a value counts; a number is compared itself. */
const LENGTH_UNITS: Readonly<Record<string, string>> = { string: 'characters', array: 'entries' }

type Issue = z.core.$ZodRawIssue

function wrongType(expected: string, { input, path = [] }: Issue): string {
  if (path.length === 0) return 'must be a JSON object'
  if (input === undefined) return 'is required'
  // A parameter that occurs more than once in a query is an array.
  if (expected === 'string' && Array.isArray(input)) return 'must occur only once'
  return `must be ${TYPE_DESCRIPTIONS[expected] ?? `of the type ${expected}`}`
}

function outOfRange(bound: number | bigint, origin: string, word: 'least' | 'most'): string {
  const counted = LENGTH_UNITS[origin]
  if (counted === undefined) return `must be at ${word} ${bound}`
  return word === 'least' && bound === 1 ? 'must not be empty' : `must have at ${word} ${bound} ${counted}`
}

/** The error message of a field, with the field as its subject. A schema's own message is kept. */
export function faultMessage(issue: Issue): string | undefined {
  switch (issue.code) {
    case 'invalid_type':
      return wrongType(issue.expected, issue)
    case 'too_small':
      return outOfRange(issue.minimum, issue.origin, 'least')
    case 'too_big':
      return outOfRange(issue.maximum, issue.origin, 'most')
    case 'invalid_value':
      if (issue.input === undefined) return 'is required'
      return `must be one of ${issue.values.filter(value => value !== '').join(', ')}`
    case 'unrecognized_keys':
      return `has an unknown field: ${issue.keys.join(', ')}`
    default:
      return undefined
  }
}
