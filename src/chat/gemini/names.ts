import { isObject, type JsonObject } from '../../domain/json-value.ts'

/** Fields that the vendor accepts in two spellings: `inline_data` is `inlineData`. */
const NAMES = [
  'allowedFunctionNames',
  'cachedContent',
  'candidateCount',
  'codeExecution',
  'codeExecutionResult',
  'displayName',
  'executableCode',
  'fileData',
  'fileUri',
  'frequencyPenalty',
  'functionCall',
  'functionCallingConfig',
  'functionDeclarations',
  'functionResponse',
  'generationConfig',
  'googleMaps',
  'googleSearch',
  'googleSearchRetrieval',
  'includeThoughts',
  'inlineData',
  'maxOutputTokens',
  'mediaResolution',
  'mimeType',
  'outputDimensionality',
  'parametersJsonSchema',
  'presencePenalty',
  'responseJsonSchema',
  'responseLogprobs',
  'responseMimeType',
  'responseModalities',
  'responseSchema',
  'safetySettings',
  'serviceTier',
  'speechConfig',
  'stopSequences',
  'systemInstruction',
  'taskType',
  'thinkingBudget',
  'thinkingConfig',
  'thinkingLevel',
  'thoughtSignature',
  'toolConfig',
  'topK',
  'topP',
  'urlContext',
  'videoMetadata',
] as const

const SPELLINGS: ReadonlyMap<string, string> = new Map(
  NAMES.map(name => [name.replace(/[A-Z]/g, letter => `_${letter.toLowerCase()}`), name]),
)

/** Members with the client's own data: the names inside them are not normalized. */
const OPAQUE = new Set([
  'args',
  'response',
  'parameters',
  'parametersJsonSchema',
  'responseSchema',
  'responseJsonSchema',
  'labels',
  'partMetadata',
])

/** Lists that may be given as a single entry. */
const LISTS = new Set(['contents', 'functionDeclarations', 'parts', 'requests', 'safetySettings', 'tools'])

/** Normalizes a body: one spelling, and lists in place of single entries. */
export function canonical(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(canonical)
  return isObject(value) ? canonicalObject(value) : value
}

function canonicalObject(value: JsonObject): JsonObject {
  const entries = Object.entries(value).map(([originalName, inner]): [string, unknown] => {
    const spelled = SPELLINGS.get(originalName)
    const name = spelled === undefined || Object.hasOwn(value, spelled) ? originalName : spelled
    if (OPAQUE.has(name)) return [name, inner]
    const read = canonical(inner)
    return [name, LISTS.has(name) && isObject(read) ? [read] : read]
  })
  return Object.fromEntries(entries)
}
