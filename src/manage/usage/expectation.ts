import { z } from 'zod'
import { invalidField } from '../../domain/errors.ts'
import { isMatch, readExpression } from '../../override/expression.ts'
import type { expectation } from '../contract/replay.ts'
import { isQuickToCompile, isQuickToSearch } from './expression-steps.ts'
import { isQuickToCompare } from './schema-steps.ts'

export type Expectation = z.output<typeof expectation>
type SchemaInput = Parameters<typeof z.fromJSONSchema>[0]

/** An answer of more characters is not matched or parsed. */
const MAX_ANSWER = 262_144
const MAX_REASON = 500
const MAX_DEPTH = 32
/** Patterns run in the engine of JavaScript, in which some take forever. */
const REFUSED_KEYWORDS: ReadonlySet<string> = new Set(['pattern', 'patternProperties', '$ref', '$dynamicRef'])

/** The first keyword of a schema that is not supported. `properties` has names of fields, which are no keywords. */
function refusedKeyword(schema: unknown, depth = 0): string | undefined {
  if (depth > MAX_DEPTH) return 'more than 32 levels'
  if (Array.isArray(schema)) return firstOf(schema, depth)
  if (typeof schema !== 'object' || schema === null) return undefined
  for (const [key, value] of Object.entries(schema)) {
    if (REFUSED_KEYWORDS.has(key)) return key
    // The schema would be read once for each of them, at every level: 2³² times.
    if (key === 'type' && Array.isArray(value) && new Set(value).size < value.length) return 'a type twice'
    const isNamed = key === 'properties' || key === '$defs' || key === 'definitions'
    const fault =
      isNamed && typeof value === 'object' && value !== null
        ? firstOf(Object.values(value), depth)
        : refusedKeyword(value, depth + 1)
    if (fault) return fault
  }
  return undefined
}

function firstOf(schemas: readonly unknown[], depth: number): string | undefined {
  for (const schema of schemas) {
    const fault = refusedKeyword(schema, depth + 1)
    if (fault) return fault
  }
  return undefined
}

/** The registry of the program keeps every schema with an id forever, so this one has its own. */
const compile = (schema: SchemaInput) => z.fromJSONSchema(schema, { registry: z.registry() })

/** Throws if a check cannot be evaluated. */
export function mustBeUsable(check: Expectation): void {
  if (check.kind === 'matches') {
    if (!isQuickToCompile(check.value))
      throw invalidField('check.value', 'repeats too much: use smaller {n,m}')
    const reading = readExpression(check.value)
    if ('fault' in reading) throw invalidField('check.value', reading.fault)
  }
  if (check.kind !== 'schema') return
  const refused = refusedKeyword(check.schema)
  if (refused) throw invalidField('check.schema', `must not contain ${refused}`)
  try {
    compile(check.schema as SchemaInput)
  } catch (error) {
    throw invalidField('check.schema', `is not a supported JSON schema: ${(error as Error).message}`)
  }
}

const FENCE = '```'
const OPENING_FENCE = /^```(?:json)?[^\S\n]*\n/

/** A model may wrap JSON in a code block. */
function unfenced(text: string): string {
  const trimmed = text.trim()
  const [opening] = OPENING_FENCE.exec(trimmed) ?? []
  return opening !== undefined && trimmed.endsWith(FENCE)
    ? trimmed.slice(opening.length, -FENCE.length)
    : text
}

function schemaFault(schema: SchemaInput, answer: string): string {
  let value: unknown
  try {
    value = JSON.parse(unfenced(answer))
  } catch {
    return 'The answer is not JSON.'
  }
  if (!isQuickToCompare(schema, value)) return 'The answer is too large to be compared with this schema.'
  const result = compile(schema).safeParse(value)
  if (result.success) return ''
  const [issue] = result.error.issues
  return `The answer does not match the schema: ${issue?.path.join('.') || 'value'}: ${issue?.message}`
}

type Judge = (model: string, question: string, answer: string) => Promise<{ status: number; answer: string }>

async function judgeFault(
  { model, question }: { model: string; question: string },
  answer: string,
  ask: Judge,
) {
  const verdict = await ask(model, question, answer)
  if (verdict.status !== 200) return `The judge model answered with status ${verdict.status}.`
  return /^\W*yes\b/i.test(verdict.answer) ? '' : `The judge model answered: ${verdict.answer}`
}

/** Why an answer does not pass; empty if it does. */
export async function faultOf(check: Expectation, answer: string, ask: Judge): Promise<string> {
  if (answer.length > MAX_ANSWER) return `The answer has more than ${MAX_ANSWER} characters.`
  const reason = await reasonOf(check, answer, ask)
  return reason.slice(0, MAX_REASON)
}

async function reasonOf(check: Expectation, answer: string, ask: Judge): Promise<string> {
  switch (check.kind) {
    case 'contains':
      return answer.includes(check.value) ? '' : `The answer does not contain "${check.value}".`
    case 'equals':
      return answer.trim() === check.value.trim() ? '' : 'The answer differs from the expected text.'
    case 'matches': {
      const reading = isQuickToCompile(check.value)
        ? readExpression(check.value)
        : { fault: 'repeats too much' }
      if ('expression' in reading && !isQuickToSearch(answer, reading.expression))
        return 'The answer is too long to be searched with this expression.'
      const matches = 'expression' in reading && isMatch(answer, reading.expression)
      return matches ? '' : `The answer does not match ${check.value}.`
    }
    case 'schema':
      return schemaFault(check.schema as SchemaInput, answer)
    case 'judge':
      return judgeFault(check, answer, ask)
  }
}
