import type { IncomingHttpHeaders } from 'node:http'
import { isObject, type WireObject } from '../json.ts'
import { steer } from '../steering.ts'

/** The tokens that one search result adds to the prompt. */
const TOKENS_PER_RESULT = 100

/** The web searches of a request, and the tokens that they add to its prompt. */
export type Searches = { readonly count: number; readonly tokens: number }

const SEARCH = /^web_search/

const limitOf = (...limits: readonly unknown[]): number =>
  Math.min(...limits.map(limit => (typeof limit === 'number' ? limit : Number.POSITIVE_INFINITY)))

/** The number of searches that the request sets, if it has a search tool, within its limits. */
export function searchesFor(request: WireObject, headers: IncomingHttpHeaders, model: string): Searches {
  const tools = Array.isArray(request.tools) ? request.tools.filter(isObject) : []
  const tool = tools.find(({ type }) => SEARCH.test(String(type)))
  const requestedCount = tool === undefined ? 0 : (steer('searches', headers, model) ?? 0)
  const count = Math.min(requestedCount, limitOf(request.max_tool_calls, tool?.max_uses))
  return { count, tokens: count * TOKENS_PER_RESULT }
}

/** The searches as billed units. */
export const searchUnits = ({ count }: Searches) => (count > 0 ? { units: { searches: count } } : {})
