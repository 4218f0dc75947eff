import { isObject, type JsonObject, member } from '../domain/json-value.ts'
import type { ToolName } from '../domain/rate.ts'
import type { ToolCalls } from '../domain/usage.ts'
import { TOOL_COUNTS } from '../domain/usage.ts'

/**
 * Tools that the provider runs during a request: searches, code, images. They cost more than tokens, and their results
 * count as input. A tool that this table does not list is treated as one of them.
 */

/** The price of a call. `tokens`: only the input that its results add. Undefined: it has no price here. */
type Charge = ToolName | 'tokens' | undefined

/**
 * The location of a tool in a request: an element of a list, a member of that element, a member of the body, or an element
 * of the `tools` of an item of `input`.
 */
type ToolPlace =
  | { readonly list: 'tools' | 'plugins'; readonly index: number; readonly member?: string }
  | { readonly item: number; readonly index: number }
  | { readonly member: string }

export type RequestedTool = {
  /** The field name for messages: `tools[2]`, `web_search_options`. */
  readonly field: string
  readonly place: ToolPlace
  readonly charge: Charge
  readonly maxCalls: number
  readonly resultTokens: number
  /** No answer reports its calls, so each request is charged for this many. */
  readonly perRequest?: number
  /** The kind of search, if prices depend on it. */
  readonly search?: string
  /** Members of the tool that make the provider enforce `maxCalls` and `resultTokens`. */
  readonly limits?: JsonObject
  /** The names by which `tool_choice` may refer to it. */
  readonly names: readonly string[]
  /** The fault of a limit in the request: the field, and the rest of the message. */
  readonly fault?: { readonly field: string; readonly message: string }
}

export type RequestedTools = {
  readonly list: readonly RequestedTool[]
  /** The limit for all tools together (responses: `max_tool_calls`); undefined: each tool has its own limit. */
  readonly maxCalls?: number
  /** The request has no `max_tool_calls`, but its format supports it. */
  readonly isUnlimited?: true
  readonly fault?: RequestedTool['fault']
}

/** The limit of calls per tool if the request sets none; it is sent to providers that accept a limit. */
const DEFAULT_CALLS = 5
/** The input that the result of one call adds. */
const RESULT_TOKENS = 8_192
/** The same for an entire page; sent as the limit if the request sets none. */
const PAGE_TOKENS = 25_000
/** A provider pauses after this many rounds of calls, until it gets another request. */
const MAX_ROUNDS = 10

export const NO_TOOLS: RequestedTools = { list: [] }

// --- Reading ------------------------------------------------------------------------------------------------------

/** Types of `tools[].type` without dates. Null: the client runs it. */
const TYPES: Readonly<Record<string, Charge | null>> = {
  function: null,
  custom: null,
  bash: null,
  text_editor: null,
  memory: null,
  computer: null,
  computer_use: null,
  computer_use_preview: null,
  local_shell: null,
  apply_patch: null,
  web_search: 'web_search',
  web_search_preview: 'web_search',
  'openrouter:web_search': 'web_search',
  x_search: 'web_search',
  browser_search: 'web_search',
  builtin_function: 'web_search',
  file_search: 'file_search',
  collections_search: 'file_search',
  retrieval: 'file_search',
  code_interpreter: 'code_interpreter',
  code_execution: 'code_interpreter',
  image_generation: 'image_generation',
  web_fetch: 'tokens',
  mcp: 'tokens',
  mcp_toolset: 'tokens',
  tool_search: 'tokens',
  tool_search_tool_regex: 'tokens',
  tool_search_tool_bm25: 'tokens',
  'openrouter:datetime': 'tokens',
}

/** Members of an element of `tools` in Google's format, in one of their two spellings. */
const GOOGLE: Readonly<Record<string, Charge | null>> = {
  functionDeclarations: null,
  computerUse: null,
  googleSearch: 'web_search',
  googleSearchRetrieval: 'web_search',
  googleMaps: 'web_search',
  fileSearch: 'file_search',
  codeExecution: 'code_interpreter',
  urlContext: 'tokens',
}

/** `plugins[].id` of OpenRouter. */
const PLUGINS: Readonly<Record<string, Charge | null>> = {
  web: 'web_search',
  'response-healing': null,
  'context-compression': null,
}

type MemberRule = { readonly charge: Charge; isAsked(value: unknown): boolean }

const isOn = (value: unknown) => value !== false && value !== 0 && value !== ''
const isFilled = (value: unknown) => !Array.isArray(value) || value.length > 0

/** Members of a body that request a tool. */
const MEMBERS: Readonly<Record<string, MemberRule>> = {
  web_search_options: { charge: 'web_search', isAsked: isOn },
  // DashScope, Tencent, Baidu.
  enable_search: { charge: 'web_search', isAsked: isOn },
  enable_enhancement: { charge: 'web_search', isAsked: isOn },
  force_search_enhancement: { charge: 'web_search', isAsked: isOn },
  web_search: { charge: 'web_search', isAsked: value => isOn(value) && member(value, 'enable') !== false },
  // xAI charged per source, which has no price here.
  search_parameters: { charge: undefined, isAsked: value => member(value, 'mode') !== 'off' },
  connectors: { charge: undefined, isAsked: isFilled },
  // The entries of a list are read one by one; no host is known to accept another form.
  plugins: { charge: undefined, isAsked: isFilled },
  mcp_servers: { charge: 'tokens', isAsked: isFilled },
}

const DATE = /_20\d\d_?\d\d_?\d\d$/

/** The member with the conversation, by which formats of tools differ. A body may have the members of other formats too. */
export type Turns = 'messages' | 'input' | 'contents'

/** The tools that a body asks the provider to run. */
export function requestedTools(body: JsonObject, turns: Turns): RequestedTools {
  let list: RequestedTool[] | undefined
  const add = (tool: RequestedTool | undefined) => {
    if (tool === undefined) return
    list ??= []
    list.push(tool)
  }
  for (const name in body) {
    const value = body[name]
    if (value === null || value === undefined) continue
    if (name === 'tools') readTools(value, turns, add)
    else if (name === 'plugins' && Array.isArray(value)) readPlugins(value, add)
    else if (name === 'input' && Array.isArray(value)) readItems(value, add)
    else if (Object.hasOwn(MEMBERS, name)) add(readMember(name, value))
  }
  return list === undefined ? NO_TOOLS : limited(list, body, turns)
}

type Add = (tool: RequestedTool | undefined) => void

function readTools(tools: unknown, turns: Turns, add: Add): void {
  const isGoogle = turns === 'contents'
  if (!Array.isArray(tools)) {
    add(readLoneTool(tools, isGoogle))
    return
  }
  for (const [index, tool] of tools.entries()) {
    if (!isObject(tool)) continue
    if (isGoogle) readGoogleTool(tool, index, add)
    else add(readTool(tool, { list: 'tools', index }, turns === 'input'))
  }
}

/** Items of Responses may offer tools too: the result of a search for tools, and `additional_tools`. */
function readItems(items: readonly unknown[], add: Add): void {
  for (const [item, each] of items.entries()) {
    const tools = member(each, 'tools')
    if (!Array.isArray(tools)) continue
    for (const [index, tool] of tools.entries())
      if (isObject(tool)) add(readTool(tool, { item, index }, true))
  }
}

/** Google accepts an object as a list of one. It is sent only if the client runs all its tools. */
function readLoneTool(tool: unknown, isGoogle: boolean): RequestedTool | undefined {
  if (!isObject(tool)) return undefined
  const hosted: RequestedTool[] = []
  if (isGoogle) readGoogleTool(tool, 0, each => each && hosted.push(each))
  if (isGoogle && hosted.length === 0) return undefined
  return {
    field: 'tools',
    place: { member: 'tools' },
    charge: undefined,
    maxCalls: DEFAULT_CALLS,
    resultTokens: RESULT_TOKENS,
    names: [],
  }
}

/** `isResponses`: the answer contains every call as an item. */
function readTool(
  tool: JsonObject,
  place: Extract<ToolPlace, { index: number }>,
  isResponses: boolean,
): RequestedTool | undefined {
  const field = `${'item' in place ? `input[${place.item}].` : ''}tools[${place.index}]`
  const fullType = tool.type
  const type = typeof fullType === 'string' ? fullType.replace(DATE, '') : undefined
  const charge = hasOddType(tool) ? undefined : chargeOf(tool, type)
  if (charge === null) return undefined
  const names = [type, fullType, tool.name].filter(name => typeof name === 'string')
  const isReported = isResponses || type !== fullType || String(type).startsWith('openrouter:')
  return {
    field,
    place,
    charge,
    names,
    ...(isReported ? {} : { perRequest: 1 }),
    ...(type === 'web_search_preview' && { search: 'preview' }),
    // Only Anthropic's tools have a date in their type; these accept limits of their own.
    ...callLimits(tool, field, type !== fullType && !isResponses ? type : undefined),
  }
}

/** Some JSON parsers ignore case, and would read another type than the gateway. */
const hasOddType = (tool: JsonObject): boolean => {
  for (const name in tool)
    if (name.length === 4 && name !== 'type' && name.toLowerCase() === 'type') return true
  return false
}

function chargeOf(tool: JsonObject, type: string | undefined): Charge | null {
  // Anthropic's own format: the client runs a tool without a type.
  if (type === undefined && tool.type === undefined)
    return isObject(tool.function) || typeof tool.name === 'string' ? null : undefined
  if (type === 'shell') return isHostedShell(tool) ? containerCharge(tool.environment) : null
  if (type === 'code_interpreter') return containerCharge(tool.container)
  if (type === 'namespace') return isOfFunctions(tool) ? null : undefined
  return type !== undefined && Object.hasOwn(TYPES, type) ? TYPES[type] : undefined
}

/** The price covers the smallest container; larger ones cost up to 64 times as much. */
const containerCharge = (container: unknown): Charge =>
  (member(container, 'memory_limit') ?? '1g') === '1g' ? 'code_interpreter' : undefined

const isHostedShell = ({ environment }: JsonObject): boolean =>
  environment !== undefined && environment !== null && member(environment, 'type') !== 'local'

const isOfFunctions = ({ tools }: JsonObject): boolean =>
  Array.isArray(tools) &&
  tools.every(
    tool => isObject(tool) && !hasOddType(tool) && ['function', 'custom'].includes(String(tool.type)),
  )

/** Tools of Anthropic that accept a limit of calls. */
const TAKE_LIMITS = ['web_search', 'web_fetch']

type CallLimits = Pick<RequestedTool, 'maxCalls' | 'resultTokens' | 'limits' | 'fault'>

function callLimits(tool: JsonObject, field: string, anthropicType: string | undefined): CallLimits {
  const usual = { maxCalls: DEFAULT_CALLS, resultTokens: RESULT_TOKENS }
  if (anthropicType === undefined || !TAKE_LIMITS.includes(anthropicType)) return usual
  const isPage = anthropicType === 'web_fetch'
  const uses = tool.max_uses ?? undefined
  const tokens = isPage ? (tool.max_content_tokens ?? undefined) : undefined
  const faultOfLimit = (
    [
      ['max_uses', uses],
      ['max_content_tokens', tokens],
    ] as const
  ).find(([, value]) => value !== undefined && !isCount(value))
  return {
    maxCalls: isCount(uses) ? uses : DEFAULT_CALLS,
    resultTokens: isCount(tokens) ? tokens : isPage ? PAGE_TOKENS : RESULT_TOKENS,
    limits: {
      ...(uses === undefined && { max_uses: DEFAULT_CALLS }),
      ...(isPage && tokens === undefined && { max_content_tokens: PAGE_TOKENS }),
    },
    ...(faultOfLimit && { fault: { field: `${field}.${faultOfLimit[0]}`, message: COUNT_WANTED } }),
  }
}

/** Higher limits than any provider accepts; multiplied by a price they would be inexact. */
const MAX_COUNT = 1e6
const COUNT_WANTED = `must be an integer from 1 to ${MAX_COUNT}`

const isCount = (value: unknown): value is number =>
  Number.isInteger(value) && Number(value) >= 1 && Number(value) <= MAX_COUNT

function readGoogleTool(tool: JsonObject, index: number, add: Add): void {
  for (const name in tool) {
    const value = tool[name]
    if (value === null || value === undefined) continue
    const camelName = name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase())
    const charge = Object.hasOwn(GOOGLE, camelName) ? GOOGLE[camelName] : undefined
    if (charge === null) continue
    add({
      field: `tools[${index}].${name}`,
      place: { list: 'tools', index, member: name },
      charge,
      maxCalls: DEFAULT_CALLS,
      resultTokens: RESULT_TOKENS,
      names: [],
    })
  }
}

/** OpenRouter bills search results in units of five. */
const RESULTS_PER_SEARCH = 5

function readPlugins(plugins: readonly unknown[], add: Add): void {
  for (const [index, plugin] of plugins.entries()) {
    const id = member(plugin, 'id')
    const charge = typeof id === 'string' && Object.hasOwn(PLUGINS, id) ? PLUGINS[id] : undefined
    if (charge === null || member(plugin, 'enabled') === false) continue
    const results = member(plugin, 'max_results')
    const searches = isCount(results) ? Math.ceil(results / RESULTS_PER_SEARCH) : 1
    add({
      field: `plugins[${index}]`,
      place: { list: 'plugins', index },
      charge,
      maxCalls: searches,
      resultTokens: RESULT_TOKENS,
      perRequest: searches,
      names: [],
    })
  }
}

function readMember(name: string, value: unknown): RequestedTool | undefined {
  const rule = MEMBERS[name]
  if (rule === undefined || !rule.isAsked(value)) return undefined
  const search = name === 'web_search_options' ? searchKind(value) : undefined
  return {
    field: name,
    place: { member: name },
    charge: rule.charge,
    maxCalls: rule.charge === 'tokens' ? DEFAULT_CALLS : 1,
    resultTokens: RESULT_TOKENS,
    ...(rule.charge !== 'tokens' && { perRequest: 1 }),
    ...(search !== undefined && { search }),
    names: [],
  }
}

/** Perplexity charges by the size of the search context, and more for planned searches: `medium`, `pro`, `pro-high`. */
function searchKind(options: unknown): string | undefined {
  const size = member(options, 'search_context_size')
  const type = member(options, 'search_type') ?? 'fast'
  const words = [type === 'fast' ? [] : ['pro'], size === undefined || size === 'low' ? [] : [String(size)]]
  return words.flat().join('-').toLowerCase() || undefined
}

/** In the Responses format, one limit applies to all tools together. */
function limited(list: readonly RequestedTool[], body: JsonObject, turns: Turns): RequestedTools {
  const fault = list.find(tool => tool.fault !== undefined)?.fault
  if (turns !== 'input') return { list, ...(fault && { fault }) }
  const limit = body.max_tool_calls ?? undefined
  if (limit === undefined) return { list, maxCalls: list.length * DEFAULT_CALLS, isUnlimited: true }
  if (isCount(limit)) return { list, maxCalls: limit }
  return { list, fault: { field: 'max_tool_calls', message: COUNT_WANTED } }
}

// --- Bounds -------------------------------------------------------------------------------------------------------

/** Upper bounds of what the tools of a request add to it. */
type ToolBounds = { readonly units: ToolCalls; readonly inputTokens: number }

/**
 * `isSent`: which of the tools are sent. After each round of calls the model reads the prompt again, with all tool
 * results so far.
 */
export function toolBounds(
  { list, maxCalls }: RequestedTools,
  inputTokens: number,
  isSent: (tool: RequestedTool) => boolean,
): ToolBounds {
  const sentTools = list.filter(isSent)
  const units: { -readonly [count in keyof ToolCalls]: ToolCalls[count] } = {}
  let calls = 0
  let resultTokens = 0
  for (const tool of sentTools) {
    calls += tool.maxCalls
    resultTokens += tool.maxCalls * tool.resultTokens
    if (tool.charge === undefined || tool.charge === 'tokens') continue
    const count = TOOL_COUNTS[tool.charge]
    units[count] = maxCalls ?? (units[count] ?? 0) + tool.maxCalls
  }
  if (sentTools.length > 0 && maxCalls !== undefined) {
    calls = maxCalls
    resultTokens = maxCalls * Math.max(...sentTools.map(tool => tool.resultTokens))
  }
  return { units, inputTokens: readAgain(inputTokens, calls, resultTokens) }
}

const readAgain = (prompt: number, calls: number, resultTokens: number): number => {
  const rounds = Math.min(calls, MAX_ROUNDS)
  return prompt * (rounds + 1) + Math.ceil((resultTokens * (rounds + 1)) / 2)
}

/** The calls that are charged per request, because no answer reports them. */
export function unreportedCalls(sentTools: readonly RequestedTool[]): ToolCalls | undefined {
  let calls: ToolCalls | undefined
  for (const { charge, perRequest } of sentTools) {
    if (perRequest === undefined || charge === undefined || charge === 'tokens') continue
    const count = TOOL_COUNTS[charge]
    calls = { ...calls, [count]: Math.max(calls?.[count] ?? 0, perRequest) }
  }
  return calls
}

/** Adds the searches of a model that always searches. */
export const withSearches = ({ units, inputTokens }: ToolBounds, searches: number): ToolBounds => ({
  units: { ...units, searches: Math.max(units.searches ?? 0, searches) },
  inputTokens: readAgain(inputTokens, searches, searches * RESULT_TOKENS),
})
