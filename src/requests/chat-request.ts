import { hasAny, isObject, type JsonObject, member } from '../domain/json-value.ts'
import { type PromptSize, sizeOf } from '../metering/prompt-size.ts'
import { DECISIVE } from './field-names.ts'
import { MAX_LIMIT, type RequestFields, type RequestReading, readRequest } from './request-fields.ts'

/** The facts of a chat request that routing and billing need. */
export type ChatFacts = PromptSize & {
  readonly model: string
  readonly stream: boolean
  readonly n: number
  /** The output limit of each choice; undefined: the request sets none. */
  readonly maxOutput: number | undefined
  readonly includeUsage: boolean
  /** Generated and billed choices, if a host generates more than it returns. */
  readonly choicesMade?: number
  /** Tokens of each choice that hosts count in addition to its limit: thinking budgets, a rejected prediction. */
  readonly outputBeside?: number
  /** The part of `textBytes` that vendors may add, beyond the client's own text. */
  readonly overhead: number
  /** Further inferences of the vendor, each over the entire prompt; absent: none. */
  readonly furtherInferences?: number
}

const MAX_CHOICES = 128

type Mutable<T> = { -readonly [Name in keyof T]: T[Name] }

// Tokens that vendors add: per message (markers, role), per tool (how to call it), for the use of tools at all
// (Anthropic's instructions are the longest known, at 530) and per prompt (a model's own system text).
const TOKENS_PER_MESSAGE = 16
const TOKENS_PER_TOOL = 32
const TOKENS_FOR_TOOLS = 600
const TOKENS_PER_REQUEST = 128

export function readChatRequest(parsed: unknown): RequestReading<ChatFacts> {
  return readRequest(parsed, (fields, body) => {
    const model = fields.model()
    const messages = readMessages(fields)
    const stream = fields.flag('stream')
    const amounts = hasAny(body, AMOUNT_FIELDS) ? readAmounts(fields, body) : NO_AMOUNTS
    const includeUsage = fields.includeUsage()
    if (fields.fault() !== undefined) return undefined
    const { textBytes, media } = sizeOf(body)
    const added = addedTokens(messages.length, countTools(body))
    const { n, maxOutput, choicesMade, outputBeside } = amounts
    const facts: Mutable<ChatFacts> = {
      model,
      stream,
      n,
      maxOutput,
      includeUsage,
      textBytes: textBytes + added,
      overhead: added,
      media,
    }
    if (choicesMade > n) facts.choicesMade = choicesMade
    if (outputBeside > 0) facts.outputBeside = outputBeside
    return facts
  })
}

/** What a request sets about the amount of its output. */
type Amounts = Required<Pick<ChatFacts, 'n' | 'maxOutput' | 'choicesMade' | 'outputBeside'>>

const NO_AMOUNTS: Amounts = { n: 1, maxOutput: undefined, choicesMade: 1, outputBeside: 0 }

/** xAI answers such a request with an id. Only the owner of the key can fetch the completion, and its usage, later. */
const DEFERRED = 'deferred'

function readAmounts(fields: RequestFields, body: JsonObject): Amounts {
  if (fields.flag(DEFERRED)) fields.refuse(DEFERRED, 'is not supported: the gateway stores nothing')
  return {
    n: fields.integer('n', MAX_CHOICES) ?? 1,
    maxOutput: fields.outputLimit(),
    choicesMade: readChoicesMade(fields),
    outputBeside: readOutputBeside(fields, body),
  }
}

/** Fields that make hosts generate several choices, of which they may return fewer. */
const CHOICES_MADE = ['best_of', 'num_return_sequences', 'candidate_count', 'n_cmpl'] as const

export function readChoicesMade(fields: RequestFields): number {
  let most = 1
  for (const name of CHOICES_MADE) most = Math.max(most, fields.integer(name, MAX_CHOICES) ?? 1)
  return most
}

const THINKING_BUDGET = 'thinking_budget'
/** Where formats and hosts take a thinking budget; -1 lets the model decide. */
const BUDGETS = [
  ['thinking', 'budget_tokens'],
  ['reasoning', 'max_tokens'],
  ['thinking_config', 'thinking_budget'],
] as const

/** The largest thinking budget in a request. */
export function readReasoningBudget(fields: RequestFields, body: JsonObject): number {
  let most = Math.max(0, fields.integer(THINKING_BUDGET, MAX_LIMIT, -1) ?? 0)
  for (const [object, name] of BUDGETS) {
    const budget = body[object] === undefined ? undefined : (member(body[object], name) ?? undefined)
    if (budget === undefined) continue
    if (typeof budget === 'number' && Number.isSafeInteger(budget) && budget >= -1 && budget <= MAX_LIMIT)
      most = Math.max(most, budget)
    else fields.refuse(`${object}.${name}`, 'must be a number of tokens, as an integer')
  }
  return most
}

/** The fields that `readAmounts` reads. Most requests have none of them. */
const AMOUNT_FIELDS: ReadonlySet<string> = new Set([
  'n',
  'prediction',
  DEFERRED,
  THINKING_BUDGET,
  ...DECISIVE.outputLimit,
  ...CHOICES_MADE,
  ...BUDGETS.map(([object]) => object),
])

/** Some hosts count thinking in addition to the limit, and all of them rejected tokens of a prediction. */
function readOutputBeside(fields: RequestFields, body: JsonObject): number {
  const { prediction } = body
  const predicted = (prediction ?? undefined) === undefined ? 0 : sizeOf({ prediction }).textBytes
  return readReasoningBudget(fields, body) + predicted
}

function readMessages(fields: RequestFields): readonly unknown[] {
  const messages = fields.required('messages')
  if (messages === undefined) return []
  if (!Array.isArray(messages) || messages.length === 0) {
    fields.refuse('messages', 'must be a list of at least one message')
    return []
  }
  for (const [index, message] of messages.entries()) {
    const role = member(message, 'role')
    if (!isObject(message)) fields.refuse(`messages[${index}]`, 'must be an object')
    else if (typeof role !== 'string' || role === '')
      fields.refuse(`messages[${index}].role`, 'must be a string')
  }
  return messages
}

function countTools(body: JsonObject): number {
  const { tools, functions } = body
  return (Array.isArray(tools) ? tools.length : 0) + (Array.isArray(functions) ? functions.length : 0)
}

/** Tokens that a vendor may add to the client's text. */
export function addedTokens(messages: number, tools: number): number {
  const forTools = tools === 0 ? 0 : TOKENS_FOR_TOOLS + tools * TOKENS_PER_TOOL
  return TOKENS_PER_REQUEST + messages * TOKENS_PER_MESSAGE + forTools
}
