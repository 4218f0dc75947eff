import { bodyOf, ownExtras } from './fields.ts'
import type { ChatRequest, FunctionTool, Tool, ToolChoice } from './hub.ts'
import type { JsonObject } from './openai/value.ts'
import type { Warnings } from './warnings.ts'

/** Whether the choice is for one tool by its name. */
export const isNamed = (choice: ToolChoice | undefined): boolean =>
  choice?.mode === 'required' && choice.only?.length === 1

/** The functions that may be called, for formats that have no other tools and no list of those allowed. */
export function allowedFunctions(
  { tools = [], toolChoice }: ChatRequest,
  warnings: Warnings,
): readonly FunctionTool[] {
  return tools.flatMap((tool, index) => {
    if (tool.type !== 'function') {
      warnings.lost(`tools[${index}]`, 'a tool that another vendor runs has no counterpart and was left out')
      return []
    }
    warnings.foreign(`tools[${index}].`, tool)
    return isAllowed(tool, toolChoice) ? [tool] : []
  })
}

const isAllowed = (tool: Exclude<Tool, { type: 'vendor' }>, choice: ToolChoice | undefined): boolean =>
  choice?.only === undefined || choice.only.includes(tool.name)

/** A function the way the common format describes it, which several vendors took over. */
export const describedFunction = (format: string, tool: FunctionTool): JsonObject => ({
  ...ownExtras(format, tool),
  type: 'function',
  function: bodyOf({
    name: tool.name,
    description: tool.description,
    parameters: tool.parameters ?? { type: 'object', properties: {} },
  }),
})
