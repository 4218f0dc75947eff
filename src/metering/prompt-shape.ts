import { isObject, type JsonObject, member } from '../domain/json-value.ts'

/**
 * The parts of a chat request that vendors frame or show to the model beside its texts. The same conversation must yield
 * the same count in every format.
 */

const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])

const isPresent = (value: unknown) => value !== undefined && value !== null && value !== ''

// --- Messages -----------------------------------------------------------------------------------------------------

/** Instructions beside the messages, by each format's name for them. */
export const instructionsIn = (request: JsonObject): unknown =>
  [request.system, request.instructions, request.systemInstruction, request.system_instruction].find(
    isPresent,
  )

/** The number of messages that a vendor counts. `isChat`: a bare text or a single turn is one, too. */
export function messageCount(request: JsonObject, isChat: boolean): number {
  const turns = [request.messages, request.contents, request.input].find(
    each => Array.isArray(each) && each.some(isObject),
  )
  if (!Array.isArray(turns) && !isChat) return 0
  const before = isPresent(instructionsIn(request)) ? 1 : 0
  if (!Array.isArray(turns)) return before + 1
  return turns.reduce((sum: number, turn, at) => sum + messagesOf(turn, turns[at - 1]), before)
}

/** Each tool result is a message. Consecutive assistant items of Responses are one message. */
function messagesOf(turn: unknown, previous: unknown): number {
  const isItem = isAssistantItem(turn) || isAssistantItem(previous)
  if (isItem && isAssistants(turn) && isAssistants(previous)) return 0
  const parts = listOf(member(turn, 'content') ?? member(turn, 'parts'))
  const results = parts.filter(isResult).length
  return results === 0 ? 1 : results + (parts.length > results ? 1 : 0)
}

const isResult = (part: unknown) =>
  member(part, 'type') === 'tool_result' ||
  isObject(member(part, 'functionResponse') ?? member(part, 'function_response'))

const isAssistants = (turn: unknown) => member(turn, 'role') === 'assistant' || isAssistantItem(turn)

/** A call or reasoning item of Responses, which is not inside a message. */
function isAssistantItem(turn: unknown): boolean {
  const type = member(turn, 'type')
  return typeof type === 'string' && type !== 'message' && !type.endsWith('_output')
}

// --- Tools and output format --------------------------------------------------------------------------------------

/** The tools in the format of chat completions. */
export const toolsIn = (request: JsonObject): readonly unknown[] => [
  ...listOf(request.tools).flatMap(inChatFormat),
  ...listOf(request.functions).map(described => ({ type: 'function', function: described })),
]

function inChatFormat(tool: unknown): readonly unknown[] {
  if (!isObject(tool) || isObject(tool.function)) return [tool]
  const declared = tool.functionDeclarations ?? tool.function_declarations
  if (Array.isArray(declared)) {
    const { functionDeclarations: _, function_declarations: __, ...others } = tool
    return [...declared.filter(isObject).map(asFunction), ...(Object.keys(others).length > 0 ? [others] : [])]
  }
  const isFunction = tool.type === 'function' || isObject(tool.input_schema)
  return [isFunction ? asFunction(tool) : tool]
}

function asFunction(tool: JsonObject): JsonObject {
  const { name, description } = tool
  const parameters =
    tool.parameters ?? tool.input_schema ?? tool.parametersJsonSchema ?? tool.parameters_json_schema
  return { type: 'function', function: { name, description, parameters } }
}

/** The schema that the answer must match. */
export function schemaIn(request: JsonObject): unknown {
  const config = request.generationConfig ?? request.generation_config
  const format =
    member(request.text, 'format') ?? member(request.output_config, 'format') ?? request.output_format
  return [
    member(member(request.response_format, 'json_schema'), 'schema'),
    member(format, 'schema'),
    ...['responseJsonSchema', 'response_json_schema', 'responseSchema', 'response_schema'].map(name =>
      member(config, name),
    ),
  ].find(isObject)
}
