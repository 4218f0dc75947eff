import { isObject, type JsonObject, member } from '../domain/json-value.ts'
import { inputBound, type PromptSize, sizeOf } from '../metering/prompt-size.ts'
import { addedTokens, type ChatFacts, readReasoningBudget } from './chat-request.ts'
import { DECISIVE, spellingsOf } from './field-names.ts'
import { type RequestedTools, requestedTools, type Turns } from './provider-tools.ts'
import {
  type RequestAddress,
  type RequestFields,
  type RequestReading,
  readRequest,
} from './request-fields.ts'

/** Where a format has the fields that routing and billing need. */
type FactNames = {
  /** The list of messages. */
  readonly turns: Turns
  /** It may also be a single text. */
  readonly isTextTaken?: boolean
  /** The minimum output limit; absent: 1. */
  readonly leastLimit?: number
  /** Fields that are always refused, and why. */
  readonly refused?: Readonly<Record<string, string>>
}

/** Creates a reader for formats with one answer and a top-level output limit. */
export const createFactsReader =
  (names: FactNames) =>
  (parsed: unknown, address: RequestAddress = {}): RequestReading<ChatFacts> =>
    readRequest(parsed, (fields, body) => {
      const model = address.model ?? fields.model()
      const stream = address.stream ?? fields.flag('stream')
      const maxOutput = fields.outputLimit(names.leastLimit)
      const budget = readReasoningBudget(fields, body)
      for (const [name, message] of Object.entries(names.refused ?? {}))
        if (isWanted(member(body, name))) fields.refuse(name, message)
      const turns = countTurns(fields, names)
      if (fields.fault() !== undefined) return undefined
      const { tools } = body
      const { textBytes, media } = sizeOf(body)
      const overhead = addedTokens(turns, Array.isArray(tools) ? tools.length : 0)
      return {
        model,
        stream,
        n: 1,
        maxOutput,
        includeUsage: true,
        textBytes: textBytes + overhead,
        overhead,
        media,
        ...furtherInferences(body),
        // A budget within the limit is part of it. A greater one applies to several turns of tools.
        ...(maxOutput !== undefined && budget > maxOutput && { outputBeside: budget }),
      }
    })

/**
 * The vendor may summarize a long conversation before it answers (`context_management`: an edit, or an entry, whose type
 * begins with `compact`). The summary is billed like another answer.
 */
function furtherInferences({
  context_management: management,
}: JsonObject): Pick<ChatFacts, 'furtherInferences'> {
  if (management === undefined || management === null) return {}
  const edits = Array.isArray(management) ? management : member(management, 'edits')
  const isCompaction = (edit: unknown) => String(member(edit, 'type')).startsWith('compact')
  return Array.isArray(edits) && edits.some(isCompaction) ? { furtherInferences: 1 } : {}
}

/** A null, false or empty field requests nothing. */
const isWanted = (value: unknown) => value !== undefined && value !== null && value !== false && value !== ''

function countTurns(fields: RequestFields, { turns: name, isTextTaken = false }: FactNames): number {
  const turns = fields.required(name)
  if (turns === undefined || (isTextTaken && !Array.isArray(turns) && isText(turns))) return 1
  if (Array.isArray(turns) && turns.length > 0) return turns.length
  fields.refuse(
    name,
    isTextTaken
      ? 'must be a string or a list of at least one item'
      : 'must be a list of at least one message',
  )
  return 0
}

/** A very long text is represented by an object. */
const isText = (value: unknown) => typeof value === 'string' || isObject(value)

/** The same for Google's format: the URL names the model, and limits are in a nested object. */
export const readContentFacts = (parsed: unknown, address: RequestAddress = {}): RequestReading<ChatFacts> =>
  readRequest(parsed, (fields, body) => {
    const contents = fields.required('contents')
    if (contents !== undefined && !Array.isArray(contents) && !isObject(contents))
      fields.refuse('contents', 'must be a list of at least one content')
    checkModel(fields, body, address)
    const cached = ['cachedContent', 'cached_content'].find(name => isWanted(member(body, name)))
    if (cached !== undefined)
      fields.refuse(cached, 'is not supported: nothing is stored, so send the contents')
    const config = body.generationConfig ?? body.generation_config
    const read = (name: string, other: string) => {
      const value = member(config, name) ?? member(config, other) ?? undefined
      if (value !== undefined && !isCount(value))
        fields.refuse(`generationConfig.${name}`, 'must be an integer of 1 or more')
      return isCount(value) ? value : undefined
    }
    const maxOutput = read('maxOutputTokens', 'max_output_tokens')
    const n = read('candidateCount', 'candidate_count') ?? 1
    if (n > MAX_CHOICES) fields.refuse('generationConfig.candidateCount', `must be at most ${MAX_CHOICES}`)
    if (fields.fault() !== undefined) return undefined
    const { textBytes, media } = sizeOf(body)
    const overhead = addedTokens(Array.isArray(contents) ? contents.length : 1, countDeclared(body))
    return {
      model: address.model ?? '',
      stream: address.stream ?? false,
      n,
      maxOutput,
      includeUsage: true,
      textBytes: textBytes + overhead,
      overhead,
      media,
    }
  })

/** The URL names the model; a model in the body must equal it. */
export function checkModel(
  fields: Pick<RequestFields, 'refuse'>,
  body: JsonObject,
  { model }: RequestAddress,
  at = '',
): void {
  const requestedModel = member(body, 'model') ?? undefined
  if (
    requestedModel === undefined ||
    model === undefined ||
    requestedModel === model ||
    requestedModel === `models/${model}`
  )
    return
  fields.refuse(`${at}model`, 'must be the same model as in the URL')
}

const MAX_CHOICES = 128

/** One tool may declare several functions. */
function countDeclared({ tools }: JsonObject): number {
  if (!Array.isArray(tools)) return 0
  const declared = (tool: unknown) =>
    member(tool, 'functionDeclarations') ?? member(tool, 'function_declarations')
  return tools.reduce((sum: number, tool: unknown) => {
    const list = declared(tool)
    return sum + (Array.isArray(list) ? list.length : 1)
  }, 0)
}

const LIMITS = spellingsOf(DECISIVE.outputLimit)
const CHOICES = spellingsOf(['n', 'best_of', 'candidate_count', 'num_return_sequences', 'n_cmpl'])

/** Upper bounds for any answer to a body, in any format. */
export type Bounds = {
  readonly inputTokens: number
  outputTokens(modelMaximum: number | undefined): number
  readonly tools: RequestedTools
}

/**
 * The bounds of a body that an administrator's override may have changed. Limits are at the top level or in a nested
 * object; the largest one counts.
 */
export function boundsOf(body: JsonObject, turns: Turns): Bounds {
  const places = [body, ...Object.values(body).filter(isObject)]
  const numbers = (names: readonly string[]) =>
    places.flatMap(place => names.map(name => member(place, name)).filter(isCount))
  const limits = numbers(LIMITS)
  const choices = Math.max(1, ...numbers(CHOICES))
  const { [turns]: conversation, tools } = body
  const lengthOf = (list: unknown, otherwise: number) => (Array.isArray(list) ? list.length : otherwise)
  const size: PromptSize = sizeOf(body)
  return {
    inputTokens: inputBound(size) + addedTokens(lengthOf(conversation, 1), lengthOf(tools, 0)),
    outputTokens: maximum => (limits.length > 0 ? Math.max(...limits) : (maximum ?? 0)) * choices,
    tools: requestedTools(body, turns),
  }
}

const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && Number(value) > 0
