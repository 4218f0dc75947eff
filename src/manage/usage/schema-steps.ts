import { isObject } from '../../domain/json-object.ts'

/** About a quarter of a second in the worst case. */
const MAX_STEPS = 100_000
const MAX_LEVELS = 128
/** Error messages repeat the texts of a schema, and formats are searched in the texts of an answer. */
const CHARACTERS_OF_STEP = 16
/** Keywords whose members are schemas of the fields with these names. */
const OF_FIELDS: ReadonlySet<string> = new Set(['properties', '$defs', 'definitions'])

const childrenOf = (value: unknown): readonly unknown[] => {
  if (Array.isArray(value)) return value
  return isObject(value) ? Object.values(value) : []
}

const sizeOfText = (text: unknown) => 1 + String(text).length / CHARACTERS_OF_STEP

/** Whether the comparison of a value with a JSON schema cannot delay other requests. An upper bound of its steps is counted. */
export function isQuickToCompare(schema: unknown, value: unknown): boolean {
  /** The number of values in each array and object that has some, itself included; a long text counts as several. */
  const sizes = new Map<unknown, number>()
  const sizeOf = (part: unknown) => sizes.get(part) ?? sizeOfText(part)
  let steps = 0
  const take = (count: number): boolean => {
    steps += count
    return steps <= MAX_STEPS
  }

  function measure(part: unknown, levels: number): boolean {
    if (levels > MAX_LEVELS) return false
    const children = childrenOf(part)
    if (!children.every(child => measure(child, levels + 1))) return false
    if (children.length > 0)
      sizes.set(
        part,
        children.reduce<number>((sum, child) => sum + sizeOf(child), 1),
      )
    return true
  }

  /** Most keywords apply to a value or to its children: both are counted. */
  function compareKeyword(content: unknown, part: unknown): boolean {
    if (Array.isArray(content)) return content.every(each => compareKeyword(each, part))
    if (!isObject(content)) return take(sizeOfText(content))
    return compare(content, part) && childrenOf(part).every(child => compare(content, child))
  }

  function compareFields(schemas: Readonly<Record<string, unknown>>, part: unknown): boolean {
    return Object.entries(schemas).every(([name, inner]) => {
      const field = isObject(part) && Object.hasOwn(part, name) ? part[name] : undefined
      return compare(inner, field)
    })
  }

  function compare(inner: unknown, part: unknown): boolean {
    if (!take(sizeOf(part))) return false
    if (!isObject(inner)) return true
    return Object.entries(inner).every(([keyword, content]) =>
      OF_FIELDS.has(keyword) && isObject(content)
        ? compareFields(content, part)
        : compareKeyword(content, part),
    )
  }

  return measure(value, 0) && compare(schema, value)
}
