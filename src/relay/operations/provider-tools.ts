import type { Price } from '../../domain/price.ts'
import { TOOL_RATES } from '../../domain/rate.ts'
import { warningsHeader } from '../../domain/warning.ts'
import { searchesOf } from '../../models/searching.ts'
import {
  type RequestedTool,
  type RequestedTools,
  requestedTools,
  type Turns,
} from '../../requests/provider-tools.ts'
import { editedBody, isUnedited, memberEdits, type ToolEdits, toolEdits } from '../../requests/tool-edits.ts'
import { sentModel } from '../../routing/table.ts'
import { topLevel } from '../../wire/json-edit.ts'
import type { RelayChannel } from '../catalog/catalog.ts'
import { badParameter } from './carry.ts'
import type { WorkLimits } from './channel-request.ts'
import type { ReadBody, RequestBody } from './request-reader.ts'

/** The tools that a request asks the provider to run. A tool with an unreadable limit is refused. */
export function toolsIn(body: RequestBody, turns: Turns): RequestedTools {
  const tools = requestedTools(body, turns)
  if (tools.fault !== undefined) throw badParameter(tools.fault.field, tools.fault.message)
  return tools
}

/** The kind of web search, if a price depends on it. */
export const searchKindOf = ({ list }: RequestedTools): string | undefined =>
  list.find(({ search }) => search !== undefined)?.search

/** A tool is only sent if its calls have a price, or cost tokens only. */
export const isPaidFor = ({ charge }: RequestedTool, { rates }: Price): boolean =>
  charge === 'tokens' || (charge !== undefined && rates[TOOL_RATES[charge]] !== undefined)

/** The price and the capability that decide which tools are sent to a channel. */
export type ToolTerms = { readonly price: Price; readonly takesMaxCalls: boolean }

/** Undefined: without prices, the tools are only inspected. */
export const toolTermsOn = (channel: RelayChannel, limits: WorkLimits | undefined): ToolTerms | undefined =>
  limits && {
    price: limits.priceOn(channel),
    takesMaxCalls: channel.provider.takesMaxToolCalls === true,
  }

/** The edits of the tools in a body for a channel; undefined: none. */
export function editsFor(
  body: RequestBody,
  tools: RequestedTools,
  terms: ToolTerms | undefined,
): ToolEdits | undefined {
  if (tools.list.length === 0 || terms === undefined) return undefined
  const { price, takesMaxCalls } = terms
  const edits = toolEdits(body, tools, { isSent: tool => isPaidFor(tool, price), takesMaxCalls })
  return isUnedited(edits) ? undefined : edits
}

/** The same edits as members of the client's own bytes. */
export const editsOfBytes = (
  edits: ToolEdits | undefined,
  { bytes, members }: ReadBody,
): RequestBody | undefined => edits && memberEdits(edits, bytes, members ?? topLevel(bytes))

/** A translated body with its tools edited, and warnings about the edits. */
export function withPaidTools(
  body: RequestBody,
  turns: Turns,
  terms: ToolTerms | undefined,
): { readonly body: RequestBody; readonly tools: RequestedTools; readonly warnings: readonly string[] } {
  const tools = toolsIn(body, turns)
  const edits = editsFor(body, tools, terms)
  if (edits === undefined) return { body, tools, warnings: [] }
  return { body: editedBody(body, edits), tools, warnings: toolWarnings(edits) }
}

export const toolWarnings = (edits: ToolEdits | undefined): readonly string[] =>
  edits === undefined || edits.warnings.length === 0 ? [] : [warningsHeader(edits.warnings)]

const overriding = new WeakMap<RelayChannel, readonly RequestedTool[]>()

/** Tools that the channel's own override requests outside of its `tools` member. */
export function overrideTools(channel: RelayChannel): readonly RequestedTool[] {
  const existing = overriding.get(channel)
  if (existing !== undefined) return existing
  const { tools: _, ...members } = channel.override.members
  const { list } = requestedTools(members, 'messages')
  overriding.set(channel, list)
  return list
}

const searchCounts = new WeakMap<RelayChannel, Map<string, number>>()

/** The maximum number of searches that a channel runs per request of a model. Cached, because every request needs it. */
export function searchesOn(channel: RelayChannel, model: string): number {
  const counts = searchCounts.get(channel) ?? new Map<string, number>()
  searchCounts.set(channel, counts)
  const modelSent = sentModel(channel, model)
  const count = counts.get(modelSent)
  if (count !== undefined) return count
  const always = channel.provider.alwaysSearches?.test(modelSent) ? 1 : 0
  const searches = Math.max(always, searchesOf(modelSent))
  counts.set(modelSent, searches)
  return searches
}
