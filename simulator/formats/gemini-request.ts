import type { OfferedTool, SimulatedChat } from '../answer.ts'
import { isObject, textOf, type WireObject } from '../json.ts'
import { ProviderError } from '../provider-error.ts'
import { countTokens } from '../tokens.ts'
import { fieldsInOneSpelling } from './gemini-names.ts'
import { TOKENS_PER_MEDIA_PART } from './openai-chat.ts'
import { CHOICE_LIMIT, decodeCount, missing } from './openai-request.ts'

const objectOf = (value: unknown): WireObject => (isObject(value) ? value : {})
const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])

/** The signature of a thought, as bytes like all signatures of this vendor. */
export const SIGNATURE = Buffer.from('sim-signature-gemini').toString('base64')
const NO_SIGNATURE = 'skip_thought_signature_validator'

export type Thinking = { readonly isOn: boolean; readonly isIncluded: boolean }

export type GeminiAsk = { readonly ask: SimulatedChat; readonly choices: number; readonly thinking: Thinking }

export function parse(body: string): WireObject {
  let request: unknown
  try {
    request = JSON.parse(body)
  } catch {
    throw new ProviderError('bad_json', 'Invalid JSON payload received.')
  }
  if (!isObject(request)) throw new ProviderError('bad_json', 'Invalid JSON payload received.')
  return request
}

/** A request for a model of this vendor, in one spelling. */
export const parseRequest = (body: string): WireObject => fieldsInOneSpelling(parse(body))

export function contentsOf({ contents }: WireObject): readonly WireObject[] {
  if (contents === undefined) throw missing('contents')
  if (!Array.isArray(contents) || !contents.every(isObject) || contents.length === 0) {
    throw new ProviderError(
      'bad_value',
      '* GenerateContentRequest.contents: contents is not specified',
      'contents',
    )
  }
  return contents
}

const partsOf = ({ parts }: WireObject): readonly WireObject[] => listOf(parts).map(objectOf)

/** Text counts as text, calls and results as their JSON, and everything else like an image. */
function countPart({ text, functionCall, functionResponse, thought }: WireObject): number {
  if (thought === true) return 0
  if (typeof text === 'string') return countTokens(text)
  const payload = functionCall ?? functionResponse
  if (!isObject(payload)) return TOKENS_PER_MEDIA_PART
  return (
    countTokens(textOf(payload.name) ?? '') +
    countTokens(JSON.stringify(payload.args ?? payload.response ?? {}))
  )
}

const countParts = (content: unknown): number =>
  partsOf(objectOf(content)).reduce((sum, part) => sum + countPart(part), 0)

export function countPrompt(request: WireObject): number {
  let count = countParts(request.systemInstruction)
  for (const content of contentsOf(request)) count += countParts(content)
  if (listOf(request.tools).length > 0) count += countTokens(JSON.stringify(request.tools))
  const schema = schemaIn(objectOf(request.generationConfig))
  return schema === undefined ? count : count + countTokens(JSON.stringify(schema))
}

const schemaIn = ({ responseJsonSchema, responseSchema }: WireObject): unknown =>
  responseJsonSchema ?? responseSchema

/** Rules that other vendors do not have. */
function check(request: WireObject, thinking: Thinking): void {
  let calls = 0
  for (const content of contentsOf(request)) {
    const parts = partsOf(content)
    if (parts.length === 0)
      throw new ProviderError('bad_value', '* contents.parts must not be empty.', 'contents')
    if (content.role !== undefined && content.role !== 'user' && content.role !== 'model') {
      throw new ProviderError('bad_value', 'Please use a valid role: user, model.', 'contents')
    }
    const results = parts.filter(part => isObject(part.functionResponse))
    if (results.some(({ functionResponse }) => !textOf(objectOf(functionResponse).name))) {
      throw new ProviderError('bad_value', 'function_response.name: Name cannot be empty.', 'contents')
    }
    if (results.length !== calls && (calls > 0 || results.length > 0)) {
      const message =
        'Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.'
      throw new ProviderError('bad_value', message, 'contents')
    }
    const called = parts.filter(part => isObject(part.functionCall))
    calls = called.length
    const proof = called[0]?.thoughtSignature
    if (thinking.isOn && calls > 0 && proof !== SIGNATURE && proof !== NO_SIGNATURE) {
      throw new ProviderError(
        'bad_value',
        'Function call is missing a thought_signature in functionCall parts.',
        'contents',
      )
    }
  }
}

export function decodeAsk(request: WireObject, model: string, words: number | undefined): GeminiAsk {
  const config = objectOf(request.generationConfig)
  const thinking = decodeThinking(config.thinkingConfig)
  check(request, thinking)
  const contents = contentsOf(request)
  const ask: SimulatedChat = {
    model,
    words,
    promptTokens: countPrompt(request),
    lastMessage: lastMessageOf(contents),
    ...decodeTools(request),
    allowsParallelCalls: true,
    json: config.responseMimeType === 'application/json' ? { schema: schemaIn(config) } : undefined,
    maxTokens: decodeCount(config, 'maxOutputTokens') ?? Number.POSITIVE_INFINITY,
  }
  return { ask, choices: decodeCount(config, 'candidateCount', CHOICE_LIMIT) ?? 1, thinking }
}

function decodeThinking(config: unknown): Thinking {
  if (!isObject(config)) return { isOn: false, isIncluded: false }
  if (config.thinkingBudget !== undefined && config.thinkingLevel !== undefined) {
    throw new ProviderError(
      'bad_value',
      'You can only set one of thinking budget and thinking level.',
      'generationConfig',
    )
  }
  const isOn = config.thinkingBudget !== 0
  return { isOn, isIncluded: isOn && config.includeThoughts === true }
}

function lastMessageOf(contents: readonly WireObject[]): SimulatedChat['lastMessage'] {
  const parts = partsOf(contents.findLast(({ role }) => role !== 'model') ?? {})
  const results = parts.filter(part => isObject(part.functionResponse))
  if (results.length > 0) {
    const resultTexts = results.map(part => JSON.stringify(objectOf(part.functionResponse).response ?? {}))
    return { by: 'tool', text: resultTexts.join(' ') }
  }
  return { by: 'user', text: parts.map(({ text }) => textOf(text) ?? '').join(' ') }
}

const MODES: Readonly<Record<string, SimulatedChat['toolMode']>> = { ANY: 'required', NONE: 'none' }

function decodeTools(request: WireObject): Pick<SimulatedChat, 'tools' | 'toolMode'> {
  const offered = listOf(request.tools)
    .flatMap(entry => listOf(objectOf(entry).functionDeclarations))
    .flatMap(decodeTool)
  const { functionCallingConfig } = objectOf(request.toolConfig)
  const { mode, allowedFunctionNames } = objectOf(functionCallingConfig)
  const names = listOf(allowedFunctionNames)
  if (mode !== undefined && offered.length === 0) {
    throw new ProviderError(
      'bad_value',
      'Function calling config is set without function_declarations.',
      'toolConfig',
    )
  }
  const tools = names.length === 0 ? offered : offered.filter(({ name }) => names.includes(name))
  return { tools, toolMode: MODES[String(mode)] ?? 'auto' }
}

function decodeTool(declared: unknown): readonly OfferedTool[] {
  const { name, parametersJsonSchema, parameters } = objectOf(declared)
  if (typeof name !== 'string' || name === '') return []
  return [{ name, parameters: parametersJsonSchema ?? parameters, isCustom: false }]
}
