import { isObject, type JsonObject, member } from '../domain/json-value.ts'
import type { Warning } from '../domain/warning.ts'
import { type ElementEdits, editElements, elements, type Member, topLevel } from '../wire/json-edit.ts'
import type { RequestedTool, RequestedTools } from './provider-tools.ts'

type Edit = Readonly<Record<string, unknown>> | undefined

/** The edits of a body that remove unpriced tools and set limits for the others. */
export type ToolEdits = {
  readonly lists: ReadonlyMap<string, ElementEdits>
  /** Edits of the `tools` of an item of `input`, by its index. */
  readonly items: ReadonlyMap<number, ElementEdits>
  /** Members of the body; undefined removes one. */
  readonly members: Readonly<Record<string, unknown>>
  readonly warnings: readonly Warning[]
  readonly sent: readonly RequestedTool[]
}

type Choice = {
  isSent(tool: RequestedTool): boolean
  /** The provider accepts `max_tool_calls`. */
  readonly takesMaxCalls: boolean
}

const REMOVED = 'was removed: a tool that the provider runs needs a price, and this model has none for it'

/** Members that the provider rejects if no tool is left. */
const ABOUT_TOOLS = ['tool_choice', 'parallel_tool_calls', 'toolConfig', 'tool_config']

export function toolEdits(body: JsonObject, requested: RequestedTools, choice: Choice): ToolEdits {
  const sentTools = requested.list.filter(choice.isSent)
  const removed = requested.list.filter(tool => !choice.isSent(tool))
  const lists = new Map<string, Map<number, Edit>>()
  const items = new Map<number, Map<number, Edit>>()
  const members: Record<string, unknown> = {}
  const warnings: Warning[] = removed.map(({ field }) => ({ field, message: REMOVED }))
  const editsIn = <Key>(map: Map<Key, Map<number, Edit>>, key: Key) => {
    const listEdits = map.get(key) ?? new Map<number, Edit>()
    map.set(key, listEdits)
    return listEdits
  }
  const elementsOf = (list: string) => editsIn(lists, list)

  for (const { place } of removed) {
    if ('item' in place) editsIn(items, place.item).set(place.index, undefined)
    else if (!('list' in place)) members[place.member] = undefined
    else if (place.member === undefined) elementsOf(place.list).set(place.index, undefined)
    else {
      const edits = elementsOf(place.list)
      edits.set(place.index, { ...edits.get(place.index), [place.member]: undefined })
    }
  }
  for (const { place, limits } of sentTools) {
    if ('list' in place && limits && Object.keys(limits).length > 0)
      elementsOf(place.list).set(place.index, limits)
  }
  for (const [list, edits] of lists) removeEmpty(body[list], edits)

  if (removed.length > 0) {
    const isNoneLeft = 'tools' in members || isAllRemoved(body.tools, lists.get('tools'))
    const dropped = choiceEdits(body, removed, isNoneLeft)
    for (const name of dropped) members[name] = undefined
    if (dropped.includes('tool_choice')) warnings.push({ field: 'tool_choice', message: CHOICE_REMOVED })
  }
  if (requested.isUnlimited && choice.takesMaxCalls && sentTools.some(({ charge }) => charge !== 'tokens'))
    members.max_tool_calls = requested.maxCalls
  return { lists, items, members, warnings, sent: sentTools }
}

const CHOICE_REMOVED = 'was removed with the tool that it names'

/** An element that loses all its members is removed. */
function removeEmpty(list: unknown, edits: Map<number, Edit>): void {
  if (!Array.isArray(list)) return
  for (const [index, edit] of edits) {
    if (edit === undefined) continue
    const element = { ...list[index], ...edit }
    if (Object.values(element).every(value => value === undefined)) edits.set(index, undefined)
  }
}

const isAllRemoved = (tools: unknown, edits: ElementEdits | undefined): boolean =>
  Array.isArray(tools) &&
  edits !== undefined &&
  tools.every((_, index) => edits.has(index) && edits.get(index) === undefined)

/** The edits of members that refer to removed tools. */
function choiceEdits(
  body: JsonObject,
  removed: readonly RequestedTool[],
  isNoneLeft: boolean,
): readonly string[] {
  if (isNoneLeft) return ABOUT_TOOLS.filter(name => Object.hasOwn(body, name))
  return namesRemoved(body.tool_choice, removed) ? ['tool_choice'] : []
}

function namesRemoved(choice: unknown, removed: readonly RequestedTool[]): boolean {
  if (!isObject(choice)) return false
  const gone = (value: unknown) => removed.some(({ names }) => names.includes(value as string))
  const listed = member(choice, 'tools') ?? member(choice.allowed_tools, 'tools')
  const tools = Array.isArray(listed) ? listed : []
  return gone(choice.type) || gone(choice.name) || tools.some(tool => gone(member(tool, 'type')))
}

/** Whether nothing has to change. */
export const isUnedited = ({ lists, items, members }: ToolEdits): boolean =>
  lists.size === 0 && items.size === 0 && Object.keys(members).length === 0

/** The edits as top-level members, for `editTopLevel`. */
export function memberEdits(
  { lists, items, members }: ToolEdits,
  bytes: Buffer,
  places: readonly Member[],
): Record<string, unknown> {
  const edits: Record<string, unknown> = { ...members }
  for (const [list, elements] of lists) {
    const place = places.find(({ key }) => key === list)
    if (place !== undefined) edits[list] = editElements(bytes, place.valueStart, elements)
  }
  const input = items.size === 0 ? undefined : places.find(({ key }) => key === 'input')
  if (input !== undefined)
    edits.input = editElements(bytes, input.valueStart, itemEdits(bytes, input.valueStart, items))
  return edits
}

const NO_TOOLS = Buffer.from('[]')

/** The edits of the items that offer tools. An item without any tool left stays, with an empty list. */
function itemEdits(bytes: Buffer, start: number, items: ToolEdits['items']): ElementEdits {
  const places = elements(bytes, start)
  const edits = new Map<number, Edit>()
  for (const [index, toolsEdits] of items) {
    const place = places[index]
    const item = place && bytes.subarray(place.start, place.end)
    const tools = item && topLevel(item).find(({ key }) => key === 'tools')
    if (tools) edits.set(index, { tools: editElements(item, tools.valueStart, toolsEdits) ?? NO_TOOLS })
  }
  return edits
}

/** The same for a body that is not serialized yet. */
export function editedBody(body: JsonObject, { lists, items, members }: ToolEdits): JsonObject {
  const edited: Record<string, unknown> = { ...body, ...members }
  for (const [list, elements] of lists) {
    const remaining = editedList(body[list], elements)
    edited[list] = remaining.length > 0 ? remaining : undefined
  }
  if (items.size > 0) {
    const ofItem = new Map<number, Edit>()
    for (const [index, tools] of items)
      ofItem.set(index, {
        tools: editedList(member((body.input as readonly unknown[])[index], 'tools'), tools),
      })
    edited.input = editedList(body.input, ofItem)
  }
  return edited
}

const editedList = (list: unknown, edits: ElementEdits): readonly unknown[] =>
  (list as readonly JsonObject[]).flatMap((element, index) => {
    if (!edits.has(index)) return [element]
    const edit = edits.get(index)
    return edit === undefined ? [] : [{ ...element, ...edit }]
  })
