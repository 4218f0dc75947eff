import { isObject, type JsonObject } from '../domain/json-value.ts'
import { longText } from '../wire/json-skim.ts'
import { instructionsIn, messageCount, schemaIn, toolsIn } from './prompt-shape.ts'
import { isCarrier, isMediaPart, isPayload } from './prompt-size.ts'

/** The text of a request that the model sees, for a token count if the provider reports no usage. */
export type PromptText = {
  /** The beginning of the text. */
  readonly text: string
  /** The bytes of the complete text. */
  readonly bytes: number
  /** Tokens beside those of the text. */
  readonly extra: number
}

const MAX_TEXT_LENGTH = 64 * 1024
// From OpenAI's documentation: markers around a message, and the beginning of the answer.
const TOKENS_PER_MESSAGE = 4
const TOKENS_PER_ANSWER = 3

/** Members of a message that the model does not see. */
const HIDDEN_MEMBERS: ReadonlySet<string> = new Set([
  'role',
  'type',
  'id',
  'call_id',
  'tool_call_id',
  'tool_use_id',
  'status',
  'detail',
  'format',
  'index',
  'cache_control',
  'media_type',
  'mimeType',
  'mime_type',
  'signature',
  'thoughtSignature',
  'thought_signature',
  'encrypted_content',
  'reasoning_details',
  'extra_content',
])

/** `mediaTokens`: the estimate for images and audio. `isChat`: a bare text counts as a message too. */
export function promptText(request: JsonObject, mediaTokens: number, isChat = false): PromptText {
  const pieces: string[] = []
  let length = 0
  let bytes = 0
  let extra = mediaTokens

  function take(text: string): void {
    bytes += Buffer.byteLength(text)
    if (length >= MAX_TEXT_LENGTH) return
    const piece = text.slice(0, MAX_TEXT_LENGTH - length)
    length += piece.length
    pieces.push(piece)
  }

  /** Content that the model sees as JSON. A text that was too long to be parsed counts by its bytes. */
  function takeJson(value: unknown): void {
    const json = JSON.stringify(value, (_, each) => {
      const long = longText(each)
      if (long === undefined) return each
      bytes += long.bytes
      return ''
    })
    take(json)
  }

  function visit(value: unknown, isMedia: boolean): void {
    if (typeof value === 'string') {
      take(value)
      return
    }
    // A list of numbers is a tokenized text.
    if (typeof value === 'number') {
      extra += 1
      return
    }
    if (Array.isArray(value)) {
      for (const each of value) visit(each, isMedia)
      return
    }
    if (!isObject(value)) return
    const long = longText(value)
    if (long !== undefined) {
      bytes += long.bytes
      return
    }
    if (visitTool(value)) return
    const isInMedia = isMedia || isMediaPart(value)
    for (const [name, each] of Object.entries(value))
      if (!HIDDEN_MEMBERS.has(name) && !(isInMedia && isPayload(name)))
        visit(each, isInMedia || isCarrier(name))
  }

  /** Tool calls and results in formats whose arguments are objects, not texts. */
  function visitTool(part: JsonObject): boolean {
    const call = part.type === 'tool_use' ? part : (part.functionCall ?? part.function_call)
    const result = part.functionResponse ?? part.function_response
    const isCall = isObject(call) && typeof call.name === 'string' && !('arguments' in call)
    if (isCall) {
      take(String(call.name))
      takeJson(call.input ?? call.args ?? {})
    } else if (isObject(result)) visit(result.response, false)
    return isCall || isObject(result) || part.type === 'redacted_thinking'
  }

  const { messages, prompt, input, contents } = request
  const framed = messageCount(request, isChat)
  if (framed > 0) extra += framed * TOKENS_PER_MESSAGE + TOKENS_PER_ANSWER
  for (const section of [instructionsIn(request), messages, prompt, input, contents]) visit(section, false)
  const tools = toolsIn(request)
  if (tools.length > 0) takeJson(tools)
  const schema = schemaIn(request)
  if (schema !== undefined) takeJson(schema)
  return { text: pieces.join('\n'), bytes, extra: Math.ceil(extra) }
}
