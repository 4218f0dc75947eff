import { type JsonObject, member } from '../domain/json-value.ts'
import type { ToolCalls, ToolCount } from '../domain/usage.ts'
import { count } from './openai-usage.ts'

/** Items and blocks of an answer that count as one charged call of a provider tool. */
const CALLS: Readonly<Record<string, ToolCount>> = {
  // Responses API of OpenAI, Azure and xAI.
  web_search_call: 'searches',
  x_search_call: 'searches',
  file_search_call: 'fileSearches',
  collections_search_call: 'fileSearches',
  code_interpreter_call: 'codeInterpreterCalls',
  code_execution_call: 'codeInterpreterCalls',
  shell_call: 'codeInterpreterCalls',
  image_generation_call: 'imageGenerationCalls',
  // Anthropic: results instead of calls, because a failed search is not charged.
  web_search_tool_result: 'searches',
  code_execution_tool_result: 'codeInterpreterCalls',
  bash_code_execution_tool_result: 'codeInterpreterCalls',
  text_editor_code_execution_tool_result: 'codeInterpreterCalls',
}

/** Further conditions for a call to be charged. */
const CHARGED: Readonly<Record<string, (item: JsonObject) => boolean>> = {
  // Opening a found page and searching in it are part of the search.
  web_search_call: ({ action }) => (member(action, 'type') ?? 'search') === 'search',
  web_search_tool_result: ({ content }) => Array.isArray(content),
  // A shell runs on the client, unless the provider created a container.
  shell_call: ({ environment }) => member(environment, 'container_id') !== undefined,
}

/** The count that an item of an answer adds to; undefined: not a charged call. */
export function toolCallOf(item: JsonObject): ToolCount | undefined {
  const { type } = item
  if (typeof type !== 'string' || !Object.hasOwn(CALLS, type)) return undefined
  return CHARGED[type]?.(item) === false ? undefined : CALLS[type]
}

/** Adds one call. */
export const withCall = (calls: ToolCalls | undefined, call: ToolCount): ToolCalls => ({
  ...calls,
  [call]: (calls?.[call] ?? 0) + 1,
})

/** The calls in a list of items; undefined: none. */
export function toolCallsIn(items: readonly unknown[]): ToolCalls | undefined {
  let calls: ToolCalls | undefined
  for (const item of items) {
    const call = typeof item === 'object' && item !== null ? toolCallOf(item as JsonObject) : undefined
    if (call !== undefined) calls = withCall(calls, call)
  }
  return calls
}

/** The greater of two counts of the same calls. */
export function mostCalls(one: ToolCalls | undefined, other: ToolCalls | undefined): ToolCalls | undefined {
  if (one === undefined || other === undefined) return one ?? other
  const names = new Set([...Object.keys(one), ...Object.keys(other)] as ToolCount[])
  return Object.fromEntries([...names].map(name => [name, Math.max(one[name] ?? 0, other[name] ?? 0)]))
}

/** xAI reports its calls per tool in the usage of an answer. */
const SUMS: readonly (readonly [name: string, count: ToolCount])[] = [
  ['web_search_calls', 'searches'],
  ['x_search_calls', 'searches'],
  ['file_search_calls', 'fileSearches'],
  ['document_search_calls', 'fileSearches'],
  ['collections_search_calls', 'fileSearches'],
  ['attachment_search_calls', 'fileSearches'],
  ['code_interpreter_calls', 'codeInterpreterCalls'],
  ['code_execution_calls', 'codeInterpreterCalls'],
]

/** The total calls that a Responses answer reports beside its items. */
export function reportedCalls(response: JsonObject): ToolCalls | undefined {
  const details = member(response.usage, 'server_side_tool_usage_details')
  const sums: Record<string, number> = {}
  for (const [name, kind] of SUMS) {
    const calls = count(details, name) ?? 0
    if (calls > 0) sums[kind] = (sums[kind] ?? 0) + calls
  }
  const requests = count(member(response.tool_usage, 'web_search'), 'num_requests') ?? 0
  if (requests > 0) sums.searches = Math.max(sums.searches ?? 0, requests)
  return Object.keys(sums).length > 0 ? sums : undefined
}
