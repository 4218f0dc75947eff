import { RE2JS, RE2JSException } from 're2js'

const MAX_EXPRESSION_LENGTH = 500

/**
 * RE2 finds one match in linear time, but all matches of some expressions (`x*y|x`) in quadratic time, and it is slower
 * than V8. These two limits keep one text from blocking the event loop.
 */
const MAX_TEXT_LENGTH = 262_144
const REPLACE_CPU_MS = 50

/** A regular expression in RE2 syntax, which overrides of other gateways use. */
export type Expression = RE2JS

/** The text or the search exceeds a limit of the expression. */
export class ExpressionLimitError extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'ExpressionLimitError'
  }
}

type ExpressionReading = { readonly expression: Expression } | { readonly fault: string }

export function readExpression(source: unknown, { ignoreCase = false } = {}): ExpressionReading {
  if (typeof source !== 'string' || source === '' || source.length > MAX_EXPRESSION_LENGTH)
    return { fault: `must be a regular expression of at most ${MAX_EXPRESSION_LENGTH} characters` }
  try {
    return { expression: RE2JS.compile(source, ignoreCase ? RE2JS.CASE_INSENSITIVE : 0) }
  } catch (error) {
    if (!(error instanceof RE2JSException)) throw error
    return { fault: `is not a valid RE2 regular expression ("${source}"): ${error.message}` }
  }
}

/** Replaces every match. `to` follows JavaScript: `$1`, `$<name>`, `$&` and `$$`. */
export function replaceMatches(text: string, expression: Expression, to: string): string {
  if (text.length > MAX_TEXT_LENGTH)
    throw new ExpressionLimitError(
      `a regular expression is not applied to a text of more than ${MAX_TEXT_LENGTH} characters`,
    )
  // Searching for any match is much cheaper than searching for all of them.
  if (!expression.test(text)) return text
  const before = process.threadCpuUsage()
  const matcher = expression.matcher(text)
  const groups = matcher.groupCount()
  const hasNames = Object.keys(expression.namedGroups()).length > 0
  const replacement = () =>
    to.replaceAll(/\$(?:([$&])|(\d\d?)|<([^>]*)>)/g, (reference, sign, digits, name) => {
      if (sign !== undefined) return sign === '$' ? '$' : (matcher.group() ?? '')
      if (name !== undefined) return hasNames ? groupNamed(name) : reference
      return groupNumbered(digits) ?? reference
    })
  const groupNamed = (name: string) =>
    Object.hasOwn(expression.namedGroups(), name) ? (matcher.group(name) ?? '') : ''
  // `$12` is the twelfth group if it exists, else the first group followed by a 2.
  const groupNumbered = (digits: string) => {
    const length = [2, 1].find(size => isGroup(digits.slice(0, size), size))
    if (length === undefined) return undefined
    return (matcher.group(Number(digits.slice(0, length))) ?? '') + digits.slice(length)
  }
  const isGroup = (digits: string, size: number) =>
    digits.length === size && Number(digits) >= 1 && Number(digits) <= groups

  let result = ''
  let end = 0
  while (matcher.find()) {
    const { user, system } = process.threadCpuUsage(before)
    if (user + system > REPLACE_CPU_MS * 1_000)
      throw new ExpressionLimitError(`a regular expression took longer than ${REPLACE_CPU_MS} ms`)
    result += text.slice(end, matcher.start()) + replacement()
    end = matcher.end()
  }
  return result + text.slice(end)
}

export const isMatch = (text: string, expression: Expression): boolean => expression.test(text)

const HEADER_PATTERN = 're:'

/** `re:` and an expression: the client headers whose names match, in any case. */
export const isHeaderPattern = (name: string): boolean => name.startsWith(HEADER_PATTERN)
export const readHeaderPattern = (name: string): ExpressionReading =>
  readExpression(name.slice(HEADER_PATTERN.length), { ignoreCase: true })
