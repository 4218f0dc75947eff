import type { Framing, StreamFrame } from '../formats/format.ts'
import { isObject, type WireObject } from '../json.ts'
import type { Script } from '../script.ts'
import type { ApplyFault, FaultContext } from './fault.ts'
import { bodyOf, withBody } from './frames.ts'

// Responses that are correct except for their usage. The count file has the true usage.

/** The values that `badusage` puts in place of every number, one per request. */
export const BAD_NUMBERS: readonly unknown[] = [-7, 2.5, 1e18, '12']

export const noUsage: ApplyFault = (script, scene) => edit(script, scene, json => withoutUsage(json))

export const zeroUsage: ApplyFault = (script, scene) => edit(script, scene, json => renumber(json, () => 0))

export const badUsage: ApplyFault = (script, scene) =>
  edit(script, scene, json => renumber(json, () => BAD_NUMBERS[scene.turn % BAD_NUMBERS.length]))

export const overuse: ApplyFault = (script, scene) => {
  const [times = 1] = scene.numbers
  return edit(script, scene, json => renumber(json, value => value * times))
}

/** Every chunk has the usage so far; a whole answer has the member twice, and the last one is right. */
export const dupUsage: ApplyFault = script => {
  if (script.isStream) return { ...script, frames: withRunningUsage(script) }
  const { usage, ...rest } = JSON.parse(bodyOf(script).toString('utf8')) as WireObject
  if (!isObject(usage)) return script
  const halved = renumber({ usage }, value => Math.floor(value / 2))
  return withBody(
    script,
    `${JSON.stringify({ ...halved, ...rest }).slice(0, -1)},"usage":${JSON.stringify(usage)}}`,
  )
}

type Edit = (json: WireObject) => WireObject | undefined

/** Changes every JSON object of the answer that has usage; an object that becomes empty is removed. */
function edit(script: Script, { format: { framing = EVENTS } }: FaultContext, change: Edit): Script {
  if (script.isStream) return { ...script, frames: editFrames(script.frames, framing, change) }
  const body = bodyOf(script).toString('utf8')
  const changed = change(JSON.parse(body) as WireObject)
  return withBody(script, changed === undefined ? body : JSON.stringify(changed))
}

function* editFrames(frames: Iterable<StreamFrame>, framing: Framing, change: Edit): Generator<StreamFrame> {
  for (const frame of frames) {
    const json = framing.read(frame.data)
    if (json === undefined || !hasUsage(json)) {
      yield frame
      continue
    }
    const changed = change(json)
    if (changed !== undefined) yield { data: framing.write(changed, frame.data), tokens: frame.tokens }
  }
}

function* withRunningUsage({ bill, frames }: Script): Generator<StreamFrame> {
  const prompt = bill?.promptTokens ?? 0
  let tokens = 0
  for (const frame of frames) {
    tokens += frame.tokens
    const json = EVENTS.read(frame.data)
    const usage = { prompt_tokens: prompt, completion_tokens: tokens, total_tokens: prompt + tokens }
    // Gemini always does this.
    yield json === undefined || 'usageMetadata' in json
      ? frame
      : {
          data: EVENTS.write({ ...json, usage: isObject(json.usage) ? json.usage : usage }, frame.data),
          tokens: frame.tokens,
        }
  }
}

function withoutUsage(json: WireObject): WireObject | undefined {
  const { usage, usageMetadata: _, prompt_eval_count: __, eval_count: ___, ...rest } = json
  // Some formats have it inside the first or last message.
  const inner = Object.entries(rest).find(([, value]) => isObject(value) && 'usage' in value)
  if (inner !== undefined) return { ...rest, [inner[0]]: withoutUsage(inner[1] as WireObject) }
  // A chunk that has only usage is removed.
  const isForUsage = isObject(usage) && Array.isArray(rest.choices) && rest.choices.length === 0
  return isForUsage ? undefined : rest
}

function renumber(json: WireObject, change: (value: number) => unknown): WireObject {
  const renumbered = (value: unknown): unknown => {
    if (typeof value === 'number') return change(value)
    if (!isObject(value)) return value
    return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, renumbered(member)]))
  }
  const inside = (value: unknown) =>
    isObject(value) && 'usage' in value ? { ...value, usage: renumbered(value.usage) } : value
  const members = Object.entries(json).map(([name, value]) => [name, inside(value)])
  const usages = USAGES.filter(name => name in json).map(name => [name, renumbered(json[name])])
  return { ...Object.fromEntries(members), ...Object.fromEntries(usages) }
}

/** The names of the usage member in all formats. */
const USAGES = ['usage', 'usageMetadata', 'prompt_eval_count', 'eval_count'] as const

const hasUsage = (json: WireObject): boolean =>
  USAGES.some(name => name in json) || Object.values(json).some(value => isObject(value) && 'usage' in value)

const EVENT_START = /^(event: \w[\w.-]*\n)?data: (?=\{)/

/** Server-sent events, with the `event` line if the format has it. */
const EVENTS: Framing = {
  read(data) {
    const start = typeof data === 'string' ? EVENT_START.exec(data) : null
    return start === null ? undefined : (JSON.parse(String(data).slice(start[0].length)) as WireObject)
  },
  write: (json, before) => `${EVENT_START.exec(String(before))?.[1] ?? ''}data: ${JSON.stringify(json)}\n\n`,
}
