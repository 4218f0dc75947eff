import { type PromptSize, sizeOf } from './prompt-size.ts'
import { type Fields, MAX_LIMIT, type RequestReading, readRequest } from './request-fields.ts'
import { isObject, type JsonObject, member } from './value.ts'

/** What routing and billing need of a chat request. Everything else in it is the model's business. */
export type ChatFacts = PromptSize & {
  readonly model: string
  readonly stream: boolean
  readonly n: number
  /** Tokens that each choice may have; undefined where the request sets no limit. */
  readonly maxOutput: number | undefined
  readonly includeUsage: boolean
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
    const maxOutput = readMaxOutput(fields)
    const includeUsage = fields.includeUsage()
    if (fields.fault() !== undefined) return undefined
    const { textBytes, media } = sizeOf(body)
    const added = addedTokens(messages.length, countTools(body))
    return { model, stream, n, maxOutput, includeUsage, textBytes: textBytes + added, overhead: added, media }
  })
}

/** Some hosts know only one of its names: where both are given, an answer may be as long as the greater one allows. */
function readMaxOutput(fields: Fields): number | undefined {
  const limits = ['max_tokens', 'max_completion_tokens'].flatMap(
    name => fields.integer(name, MAX_LIMIT) ?? [],
  )
  return limits.length === 0 ? undefined : Math.max(...limits)
}

function readMessages(fields: Fields): readonly unknown[] {
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
      fields.refuse(`messages[${index}].role`, 'must be a text')
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
