import type { z } from 'zod'

/** What a field must be, for the types a schema can ask for. */
const KINDS: Readonly<Record<string, string>> = {
  string: 'a text',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
  array: 'an array',
  object: 'an object',
  record: 'an object',
}

/** What is counted in a value that is too short or too long; a number is compared as it is. */
const COUNTED: Readonly<Record<string, string>> = { string: 'characters', array: 'entries' }

type Issue = z.core.$ZodRawIssue

function wrongType(expected: string, { input, path = [] }: Issue): string {
  if (path.length === 0) return 'must be a JSON object'
  if (input === undefined) return 'is needed'
  // A name that stands in a query more than once is read as an array.
  if (expected === 'string' && Array.isArray(input)) return 'must be one text, not several'
  return `must be ${KINDS[expected] ?? `of the type ${expected}`}`
}

function outOfRange(bound: number | bigint, origin: string, word: 'least' | 'most'): string {
  const counted = COUNTED[origin]
  if (counted === undefined) return `must be at ${word} ${bound}`
  return word === 'least' && bound === 1 ? 'must not be empty' : `must have at ${word} ${bound} ${counted}`
}

/** What is wrong with a field, in a sentence whose subject is the field; a schema with words of its own keeps them. */
export function faultMessage(issue: Issue): string | undefined {
  switch (issue.code) {
    case 'invalid_type':
      return wrongType(issue.expected, issue)
    case 'too_small':
      return outOfRange(issue.minimum, issue.origin, 'least')
    case 'too_big':
      return outOfRange(issue.maximum, issue.origin, 'most')
    case 'invalid_value':
      if (issue.input === undefined) return 'is needed'
      return `must be one of ${issue.values.filter(value => value !== '').join(', ')}`
    default:
      return undefined
  }
}
