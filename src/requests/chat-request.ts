import { isObject, type JsonObject, member } from '../domain/json-value.ts'
import { type PromptSize, sizeOf } from '../metering/prompt-size.ts'
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
    const n = fields.integer('n', MAX_CHOICES) ?? 1
    const maxOutput = fields.outputLimit()
    const includeUsage = fields.includeUsage()
    const choicesMade = readChoicesMade(fields)
    const outputBeside = readOutputBeside(fields, body)
    if (fields.fault() !== undefined) return undefined
    const { textBytes, media } = sizeOf(body)
    const added = addedTokens(messages.length, countTools(body))
    return {
      model,
      stream,
      n,
      maxOutput,
      includeUsage,
      textBytes: textBytes + added,
      overhead: added,
      media,
      ...(choicesMade > n && { choicesMade }),
      ...(outputBeside > 0 && { outputBeside }),
    }
  })
}

/** Fields that make hosts generate several choices, of which they may return fewer. */
const CHOICES_MADE = ['best_of', 'num_return_sequences', 'candidate_count'] as const

function readChoicesMade(fields: RequestFields): number {
  let most = 1
  for (const name of CHOICES_MADE) most = Math.max(most, fields.integer(name, MAX_CHOICES) ?? 1)
  return most
}

/** Where formats and hosts take a thinking budget; -1 lets the model decide. */
const BUDGETS = [
  ['thinking', 'budget_tokens'],
  ['reasoning', 'max_tokens'],
  ['thinking_config', 'thinking_budget'],
] as const

/** The largest thinking budget in a request. */
export function readReasoningBudget(fields: RequestFields, body: JsonObject): number {
  let most = Math.max(0, fields.integer('thinking_budget', MAX_LIMIT, -1) ?? 0)
  for (const [object, name] of BUDGETS) {
    const budget = body[object] === undefined ? undefined : (member(body[object], name) ?? undefined)
    if (budget === undefined) continue
    if (typeof budget === 'number' && Number.isSafeInteger(budget) && budget >= -1 && budget <= MAX_LIMIT)
      most = Math.max(most, budget)
    else fields.refuse(`${object}.${name}`, 'must be a number of tokens, as an integer')
  }
  return most
}

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
