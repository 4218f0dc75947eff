import { isObject, member } from '../../domain/json-value.ts'
import type { RequestAddress } from '../../requests/request-fields.ts'
import { compact, decoding, extrasOf, type FieldReader, strictFields, unreadFields } from '../hub/fields.ts'
import type { DecodedRequest } from '../hub/format.ts'
import type {
  ChatRequest,
  FunctionTool,
  Message,
  Output,
  Part,
  Reasoning,
  ReasoningPart,
  TextPart,
  Tool,
  ToolChoice,
} from '../hub/hub.ts'
import { modelIn } from '../hub/model-name.ts'
import { commonTier } from '../hub/service-tier.ts'
import { decodePart, FORMAT } from './content.ts'
import { canonical } from './names.ts'
import { fromOpenApi } from './schema.ts'
import { decodeResult, type OpenCalls } from './tool-result.ts'

/** The URL contains the model and the stream flag. */
export const decodeRequest = (body: unknown, address: RequestAddress = {}): DecodedRequest =>
  decoding(() => decode(strictFields(canonical(body), ''), address))

function decode(body: FieldReader, address: RequestAddress): ChatRequest {
  const model = modelIn(body, address.model)
  // Some clients repeat the model of the URL in the body.
  body.any('model')
  const config = body.fields('generationConfig') ?? strictFields({}, 'generationConfig')
  const toolConfig = body.fields('toolConfig')
  const calling = toolConfig?.fields('functionCallingConfig')
  const thinking = config.fields('thinkingConfig')
  return compact<ChatRequest>({
    model,
    stream: address.stream ?? false,
    messages: [...decodeInstruction(body), ...decodeContents(body)],
    tools: body.list('tools') && body.each('tools').flatMap(decodeTools),
    ...decodeConfig(config),
    reasoning: decodeThinking(thinking),
    toolChoice: decodeChoice(calling),
    safety: decodeSafety(body),
    serviceTier: commonTier(body.text('serviceTier')),
    extras: extrasOf(
      FORMAT,
      unreadFields(body, {
        generationConfig: unreadFields(config, { thinkingConfig: thinking?.rest() }),
        toolConfig: unreadFields(toolConfig, { functionCallingConfig: calling?.rest() }),
      }),
    ),
  })
}

// --- Contents -----------------------------------------------------------------------------------------------------

const ROLES: Readonly<Record<string, Message['role']>> = {
  user: 'user',
  model: 'assistant',
  assistant: 'assistant',
  function: 'user',
  tool: 'user',
  system: 'system',
}

function decodeInstruction(body: FieldReader): readonly Message[] {
  const instruction = body.fields('systemInstruction')
  if (instruction === undefined) return []
  // Its role has no meaning.
  instruction.any('role')
  const content = instruction.each('parts').map(part => decodePart(part, () => ''))
  return content.length === 0 ? [] : [{ role: 'system', content }]
}

function decodeContents(body: FieldReader): readonly Message[] {
  if (body.needList('contents').length === 0)
    body.refuse('contents', 'must be a list of at least one content')
  const open: OpenCalls = []
  let idCount = 0
  // Older clients send no ids: a call gets one by its position, which is the same in every later turn.
  const newId = () => `call_${++idCount}`
  const contents = body.each('contents').map((content): Message => {
    const role = ROLES[content.text('role') ?? 'user']
    if (role === undefined) return content.refuse('role', 'must be user or model')
    const parts = content.each('parts').map((part): Part => {
      if (isObject(part.value.functionResponse)) return decodeResult(part, open, newId)
      const decoded = decodePart(part, newId)
      if (decoded.type === 'toolCall') open.push({ id: decoded.id, name: decoded.name })
      return decoded
    })
    return compact<Message>({ role, content: parts, extras: extrasOf(FORMAT, content.rest()) })
  })
  return joinAnswers(contents).flatMap(splitResults)
}

/** The vendor's SDK keeps each chunk of a streamed answer as a content of its own. */
function joinAnswers(contents: readonly Message[]): readonly Message[] {
  const messages: Message[] = []
  let answer: Part[] | undefined
  for (const message of contents) {
    if (message.role !== 'assistant') answer = undefined
    else if (answer !== undefined && message.extras === undefined) {
      for (const part of message.content) appendPiece(answer, part)
      continue
    } else answer = [...message.content]
    messages.push(answer === undefined ? message : { ...message, content: answer })
  }
  return messages
}

/** The pieces of a text become one text again; the last chunk has an empty one. */
function appendPiece(parts: Part[], part: Part): void {
  const last = parts.at(-1)
  if (!isPlainText(part)) parts.push(part)
  else if (isPlainText(last)) parts[parts.length - 1] = { ...last, text: last.text + part.text }
  else if (part.text !== '') parts.push(part)
}

const isPlainText = (part: Part | undefined): part is TextPart =>
  part?.type === 'text' && (part.signature ?? part.extras) === undefined

/** Clients do not merge the pieces of streamed reasoning, but another vendor's signature covers all pieces before it. */
function joinThoughts(parts: readonly Part[]): readonly Part[] {
  const merged: Part[] = []
  for (const part of parts) {
    let text = ''
    if (part.type === 'reasoning' && hasForeignProofIn(part)) {
      for (let last = merged.at(-1); isPieceOfThought(last); last = merged.at(-1)) {
        text = last.text + text
        merged.pop()
      }
    }
    merged.push(part.type === 'reasoning' && text !== '' ? { ...part, text: text + part.text } : part)
  }
  return merged
}

const hasForeignProofIn = ({ signature, encrypted }: ReasoningPart) =>
  (signature ?? encrypted ?? { format: FORMAT }).format !== FORMAT

const isPieceOfThought = (part: Part | undefined): part is ReasoningPart =>
  part?.type === 'reasoning' && (part.signature ?? part.encrypted ?? part.extras) === undefined

/** In the hub, tool results are messages of their own role; other content of the user follows them. */
function splitResults(decoded: Message): readonly Message[] {
  const content = joinThoughts(decoded.content)
  const results = content.filter(part => part.type === 'toolResult')
  const others = content.filter(part => part.type !== 'toolResult')
  const message = { ...decoded, content: others }
  if (results.length === 0) return [message]
  const tool = { role: 'tool', content: results } as const
  return others.length === 0 ? [tool] : [tool, message]
}

// --- Tools --------------------------------------------------------------------------------------------------------

/** An entry contains functions, the vendor's own tools, or both. */
function decodeTools(entry: FieldReader): readonly Tool[] {
  const functions = entry.each('functionDeclarations').map(decodeFunction)
  const rest = entry.rest()
  const own = Object.entries(rest ?? {}).map(
    ([name, value]): Tool => ({ type: 'vendor', format: FORMAT, value: { [name]: value } }),
  )
  return [...functions, ...own]
}

function decodeFunction(tool: FieldReader): FunctionTool {
  const schema = tool.object('parametersJsonSchema')
  const parameters = tool.object('parameters')
  return compact<FunctionTool>({
    type: 'function',
    name: tool.needText('name'),
    description: tool.text('description'),
    parameters: schema ?? (parameters && fromOpenApi(parameters)),
    extras: extrasOf(FORMAT, tool.rest()),
  })
}

function decodeChoice(config: FieldReader | undefined): ToolChoice | undefined {
  const mode = config?.text('mode')
  const names = config?.texts('allowedFunctionNames') ?? []
  const only = names.length === 0 ? {} : { only: names }
  switch (mode) {
    case undefined:
    case 'MODE_UNSPECIFIED':
      return undefined
    case 'AUTO':
    case 'VALIDATED':
      return { mode: 'auto', ...only }
    case 'ANY':
      return { mode: 'required', ...only }
    case 'NONE':
      return { mode: 'none' }
    default:
      return (config as FieldReader).refuse('mode', 'must be one of AUTO, ANY, NONE, VALIDATED')
  }
}

/** Settings with more than a category and a threshold stay as they are. */
function decodeSafety(body: FieldReader): ChatRequest['safety'] {
  const settings = member(body.value, 'safetySettings')
  if (!Array.isArray(settings)) return undefined
  const isPlain = settings.every(each => isObject(each) && Object.keys(each).length === 2)
  if (!isPlain) return undefined
  return body.each('safetySettings').map(setting => ({
    category: setting.needText('category'),
    threshold: setting.needText('threshold'),
  }))
}

// --- Parameters ---------------------------------------------------------------------------------------------------

function decodeConfig(config: FieldReader): Partial<ChatRequest> {
  const isLogged = config.flag('responseLogprobs') === true
  return compact<Partial<ChatRequest>>({
    maxTokens: config.count('maxOutputTokens'),
    temperature: config.number('temperature'),
    topP: config.number('topP'),
    topK: config.number('topK'),
    seed: config.number('seed'),
    stop: config.texts('stopSequences'),
    presencePenalty: config.number('presencePenalty'),
    frequencyPenalty: config.number('frequencyPenalty'),
    choices: config.count('candidateCount'),
    logprobs: isLogged ? (config.number('logprobs') ?? 0) : undefined,
    output: decodeOutput(config),
    modalities: config.texts('responseModalities')?.map(each => each.toLowerCase()),
  })
}

const JSON_TYPE = 'application/json'

function decodeOutput(config: FieldReader): Output | undefined {
  if (member(config.value, 'responseMimeType') !== JSON_TYPE) return undefined
  config.any('responseMimeType')
  const schema = config.object('responseJsonSchema')
  const openApi = config.object('responseSchema')
  if (schema === undefined && openApi === undefined) return { type: 'json' }
  return { type: 'schema', schema: schema ?? fromOpenApi(openApi ?? {}), isEnforced: true }
}

/** Reasoning is returned only on request. A budget of 0 disables it, −1 lets the model decide. */
function decodeThinking(thinking: FieldReader | undefined): Reasoning | undefined {
  if (thinking === undefined) return undefined
  const budget = thinking.number('thinkingBudget')
  const level = thinking.text('thinkingLevel')?.toLowerCase()
  const includesThoughts = thinking.flag('includeThoughts')
  const summary = includesThoughts === true ? 'auto' : 'none'
  if (budget === 0) return { effort: 'none' }
  if (budget !== undefined && budget < 0) return { isAdaptive: true, summary }
  return compact<Reasoning>({ budget, effort: level?.replace('thinking_level_', ''), summary })
}
