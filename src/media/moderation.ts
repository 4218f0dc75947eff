import { isObject, type JsonObject, member } from '../domain/json-value.ts'
import { type RequestReading, readRequest } from '../requests/request-fields.ts'
import { AnswerError, type Dialect } from './dialect.ts'

/** The categories that every result has (docs/reference/relay-api.md: Moderation). */
export const CATEGORIES = [
  'hate',
  'hate/threatening',
  'harassment',
  'self-harm',
  'sexual',
  'sexual/minors',
  'violence',
  'violence/graphic',
] as const

const MAX_INPUTS = 2_048

/** A moderation request (docs/reference/relay-api.md: Moderation). */
type ModerationAsk = {
  readonly model: string
  /** One text per input; undefined: the parts of one input, with images. */
  readonly inputs: readonly string[] | undefined
  /** The number of results that the answer must have. */
  readonly count: number
  readonly body: JsonObject
}

type Judgement = {
  readonly flagged: boolean
  readonly categories: Readonly<Record<string, boolean>>
  readonly scores: Readonly<Record<string, number>>
  /** Further members of the vendor's result, forwarded unchanged. */
  readonly more?: JsonObject
}
type ModerationAnswer = {
  readonly id?: string | undefined
  readonly model?: string | undefined
  readonly results: readonly Judgement[]
  readonly more?: JsonObject
}
export type ModerationDialect = Dialect<ModerationAsk, ModerationAnswer>

export function readModerationRequest(
  parsed: unknown,
  defaultModel: () => string | undefined,
): RequestReading<ModerationAsk> {
  return readRequest(parsed, (fields, body) => {
    const requestedModel = member(body, 'model') ?? undefined
    const model =
      requestedModel === undefined || requestedModel === ''
        ? (defaultModel() ?? fields.model())
        : fields.model()
    const input = fields.required('input')
    if (typeof input === 'string') return { model, inputs: [input], count: 1, body }
    if (!Array.isArray(input)) {
      if (input !== undefined)
        fields.refuse('input', 'must be a string, a list of strings or a list of parts')
      return undefined
    }
    if (input.length === 0 || input.length > MAX_INPUTS) {
      fields.refuse('input', `must have 1 to ${MAX_INPUTS} items`)
      return undefined
    }
    if (input.every(each => typeof each === 'string'))
      return { model, inputs: input as readonly string[], count: input.length, body }
    // A list of parts is one input: an image with the text beside it.
    const isPart = (each: unknown) => isObject(each) && typeof each.type === 'string'
    const isTexts = typeof input[0] === 'string'
    const wrong = input.findIndex(each => (isTexts ? typeof each !== 'string' : !isPart(each)))
    if (wrong >= 0) fields.refuse(`input.${wrong}`, 'must be a string like all others, or a part with a type')
    return { model, inputs: undefined, count: 1, body }
  })
}

const entriesOf = <Value>(value: unknown, isValue: (each: unknown) => each is Value) =>
  Object.fromEntries(
    Object.entries(isObject(value) ? value : {}).filter((entry): entry is [string, Value] =>
      isValue(entry[1]),
    ),
  )
const isBoolean = (value: unknown): value is boolean => typeof value === 'boolean'
const isNumber = (value: unknown): value is number => typeof value === 'number'

/** Reads one result in the common format. */
function readJudgement(value: unknown): Judgement {
  if (!isObject(value)) throw new AnswerError('a result is not an object')
  const { flagged, categories, category_scores, ...more } = value
  if (!isObject(categories) && !isObject(category_scores)) throw new AnswerError('a result has no categories')
  const judged = entriesOf(categories, isBoolean)
  return {
    flagged: typeof flagged === 'boolean' ? flagged : Object.values(judged).includes(true),
    categories: judged,
    scores: entriesOf(category_scores, isNumber),
    more,
  }
}

export function readCommonModeration(answer: unknown): ModerationAnswer {
  if (member(answer, 'error')) throw new AnswerError('the response is an error')
  if (!isObject(answer) || !Array.isArray(answer.results))
    throw new AnswerError('the response has no results')
  const { id, model, results, ...more } = answer
  return {
    id: typeof id === 'string' ? id : undefined,
    model: typeof model === 'string' ? model : undefined,
    results: results.map(readJudgement),
    more,
  }
}

/** One result for each input, in order, with all categories (docs/reference/relay-api.md: Moderation). */
export function writeModeration(answer: ModerationAnswer, ask: ModerationAsk, newId: () => string) {
  if (answer.results.length !== ask.count)
    throw new AnswerError(`the response has ${answer.results.length} results for ${ask.count} inputs`)
  return {
    id: answer.id ?? newId(),
    model: answer.model ?? ask.model,
    ...answer.more,
    results: answer.results.map(({ flagged, categories, scores, more }) => ({
      flagged,
      categories: { ...Object.fromEntries(CATEGORIES.map(name => [name, false])), ...categories },
      category_scores: { ...Object.fromEntries(CATEGORIES.map(name => [name, 0])), ...scores },
      ...more,
    })),
  }
}
