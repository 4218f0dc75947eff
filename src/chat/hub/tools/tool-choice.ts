import type { JsonObject } from '../../../domain/json-value.ts'
import { bodyOf, ownExtras } from '../fields.ts'
import type { ChatRequest, FunctionTool, Message, Tool, ToolChoice } from '../hub.ts'
import type { Warnings } from '../warnings.ts'

/** The warning text for a tool that another vendor runs. */
export const HOSTED_TOOL = 'a tool that another vendor runs'

/** Whether the choice forces one tool by name. */
export const isNamed = (choice: ToolChoice | undefined): boolean =>
  choice?.mode === 'required' && choice.only?.length === 1

/** The functions that may be called, for formats without other tools and without a list of allowed ones. */
export function allowedFunctions(
  { tools = [], toolChoice }: ChatRequest,
  warnings: Warnings,
): readonly FunctionTool[] {
  return tools.flatMap((tool, index) => {
    if (tool.type !== 'function') {
      warnings.unsupported(`tools[${index}]`, HOSTED_TOOL)
      return []
    }
    warnings.foreign(`tools[${index}].`, tool)
    return isAllowed(tool, toolChoice) ? [tool] : []
  })
}

const isAllowed = (tool: Exclude<Tool, { type: 'vendor' }>, choice: ToolChoice | undefined): boolean =>
  choice?.only === undefined || choice.only.includes(tool.name)

/** The distinct names of the tools that a conversation calls. */
export const calledTools = (messages: readonly Message[]): readonly string[] => [
  ...new Set(
    messages.flatMap(({ content }) => content.flatMap(part => (part.type === 'toolCall' ? [part.name] : []))),
  ),
]

/** A function in the common format, which several vendors share. */
export const describedFunction = (format: string, tool: FunctionTool): JsonObject => ({
  ...ownExtras(format, tool),
  type: 'function',
  function: bodyOf({
    name: tool.name,
    description: tool.description,
    parameters: tool.parameters ?? { type: 'object', properties: {} },
  }),
})
