import { longText } from '../../wire/json-skim.ts'
import { isCarrier, isMediaPart, isPayload } from './prompt-size.ts'
import { isObject, type JsonObject } from './value.ts'

/** What of a request the model is shown, as far as we know, for a count where a provider tells none. */
export type PromptText = {
  /** The beginning of it. */
  readonly text: string
  /** Of all of it, of which `text` may be a part. */
  readonly bytes: number
  /** Tokens beside those of the text. */
  readonly extra: number
}

const MAX_TEXT_LENGTH = 64 * 1024
// As OpenAI documents its own format: markers around a message, and the beginning of the answer.
const TOKENS_PER_MESSAGE = 4
const TOKENS_PER_ANSWER = 3

/** Members of a message that are shown to no model. */
const ASIDE: ReadonlySet<string> = new Set([
  'role',
  'type',
  'id',
  'tool_call_id',
  'detail',
  'format',
  'index',
])

/** `mediaTokens`: what its pictures and sounds are taken for. */
export function promptText(request: JsonObject, mediaTokens: number): PromptText {
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

  function walk(value: unknown, isMedia: boolean): void {
    if (typeof value === 'string') {
      take(value)
      return
    }
    // A list of numbers is a text that was made tokens already.
    if (typeof value === 'number') {
      extra += 1
      return
    }
    if (Array.isArray(value)) {
      for (const each of value) walk(each, isMedia)
      return
    }
    if (!isObject(value)) return
    const long = longText(value)
    if (long !== undefined) {
      bytes += long.bytes
      return
    }
    const isInMedia = isMedia || isMediaPart(value)
    for (const [name, each] of Object.entries(value))
      if (!ASIDE.has(name) && !(isInMedia && isPayload(name))) walk(each, isInMedia || isCarrier(name))
  }

  const { messages, prompt, input, contents, tools, functions, response_format } = request
  const { system, instructions, systemInstruction, text: form, output_config } = request
  const turns = [messages, contents, input].find(each => Array.isArray(each) && each.some(isObject))
  if (Array.isArray(turns)) extra += turns.length * TOKENS_PER_MESSAGE + TOKENS_PER_ANSWER
  for (const shown of [system, instructions, systemInstruction, messages, prompt, input, contents])
    walk(shown, false)
  for (const shape of [tools, functions, response_format, form, output_config])
    if (typeof shape === 'object' && shape !== null) take(JSON.stringify(shape))
  return { text: pieces.join('\n'), bytes, extra: Math.ceil(extra) }
}
