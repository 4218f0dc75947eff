import type { IncomingHttpHeaders } from 'node:http'
import { isObject, type WireObject } from '../json.ts'
import { steer } from '../steering.ts'

/** Tokens that the result of one search adds to the prompt. */
const TOKENS_PER_RESULT = 100

/** Web searches that the simulated provider makes for a request, and what they add to its prompt. */
export type Searches = { readonly count: number; readonly tokens: number }

const SEARCH = /^web_search/

const limitOf = (...limits: readonly unknown[]): number =>
  Math.min(...limits.map(limit => (typeof limit === 'number' ? limit : Number.POSITIVE_INFINITY)))

/** As many as the request is steered to, if it offers a tool for them, and never more than its limits allow. */
export function searchesFor(request: WireObject, headers: IncomingHttpHeaders, model: string): Searches {
  const tools = Array.isArray(request.tools) ? request.tools.filter(isObject) : []
  const tool = tools.find(({ type }) => SEARCH.test(String(type)))
  const requestedCount = tool === undefined ? 0 : (steer('searches', headers, model) ?? 0)
  const count = Math.min(requestedCount, limitOf(request.max_tool_calls, tool?.max_uses))
  return { count, tokens: count * TOKENS_PER_RESULT }
}

/** What is billed for them. */
export const searchUnits = ({ count }: Searches) => (count > 0 ? { units: { searches: count } } : {})
