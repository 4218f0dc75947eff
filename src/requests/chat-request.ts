import { isObject, type JsonObject, member } from '../domain/json-value.ts'
import { type PromptSize, sizeOf } from '../metering/prompt-size.ts'
import { MAX_LIMIT, type RequestFields, type RequestReading, readRequest } from './request-fields.ts'

/** What routing and billing need of a chat request. Everything else in it is the model's business. */
export type ChatFacts = PromptSize & {
  readonly model: string
  readonly stream: boolean
  readonly n: number
  /** Tokens that each choice may have; undefined where the request sets no limit. */
  readonly maxOutput: number | undefined
  readonly includeUsage: boolean
  /** Choices that are made and paid for, where a host makes more than it sends back. */
  readonly choicesMade?: number
  /** Tokens of each choice that hosts count beside its limit: budgets of thought, a rejected prediction. */
  readonly outputBeside?: number
  /** How many of `textBytes` stand for what vendors may add, and not for what the client wrote. */
  readonly overhead: number
  /** Inferences that the vendor may run beside the answer, each over the whole prompt; absent: none. */
  readonly furtherInferences?: number
}

const MAX_CHOICES = 128

// Tokens that vendors add: around a message (markers, role), for a tool (how to call it), for the use of tools as such
// (Anthropic's instructions are the longest known, at 530) and for any prompt (a model's own system text).
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

/** Names by which hosts are told to make several choices, of which they may send back fewer. */
const CHOICES_MADE = ['best_of', 'num_return_sequences', 'candidate_count'] as const

function readChoicesMade(fields: RequestFields): number {
  let most = 1
  for (const name of CHOICES_MADE) most = Math.max(most, fields.integer(name, MAX_CHOICES) ?? 1)
  return most
}

/** Where formats and hosts tell how long a model may think; -1 leaves it to the model. */
const BUDGETS = [
  ['thinking', 'budget_tokens'],
  ['reasoning', 'max_tokens'],
  ['thinking_config', 'thinking_budget'],
] as const

/** The greatest budget of thought that a request names. */
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

/** Some hosts count thoughts beside the limit, and all of them what a prediction brought that was not used. */
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

/** Tokens that a vendor may put around what the client wrote. */
export function addedTokens(messages: number, tools: number): number {
  const forTools = tools === 0 ? 0 : TOKENS_FOR_TOOLS + tools * TOKENS_PER_TOOL
  return TOKENS_PER_REQUEST + messages * TOKENS_PER_MESSAGE + forTools
}
