import { createHash } from 'node:crypto'
import type { Stage } from '../../../wire/stage.ts'
import type { ChatAnswer, ChatEvent, ChatRequest, Message, Part, Tool } from '../hub.ts'

/**
 * Tool names that some vendors reject: they are sent in an accepted form, and calls are returned under the client's
 * names.
 */
const COMMON = /^[a-zA-Z0-9_-]{1,64}$/
const RULES: Readonly<Record<string, RegExp>> = {
  'openai-chat': COMMON,
  responses: COMMON,
  anthropic: COMMON,
  bedrock: COMMON,
  gemini: /^[a-zA-Z_][a-zA-Z0-9_.-]{0,63}$/,
}

const PREFIX_LENGTH = 50
const HASH_LENGTH = 10

/** Deterministic, so that calls of earlier turns match the tools. The hash distinguishes names that become equal. */
function fit(name: string): string {
  const plain = name.replace(/[^a-zA-Z0-9_-]/g, '_').slice(0, PREFIX_LENGTH)
  const hash = createHash('sha256').update(name).digest('hex').slice(0, HASH_LENGTH)
  return `${/^[a-zA-Z_]/.test(plain) ? '' : '_'}${plain}_${hash}`
}

/** The changed names by the client's names; undefined: none had to change. */
export type FittedNames = ReadonlyMap<string, string>

export function fittedNames({ tools = [], messages }: ChatRequest, format: string): FittedNames | undefined {
  const rule = RULES[format]
  if (rule === undefined) return undefined
  const fitted = new Map<string, string>()
  const fitOne = (name: string | undefined) => {
    if (name !== undefined && !rule.test(name)) fitted.set(name, fit(name))
  }
  for (const tool of tools) if (tool.type !== 'vendor') fitOne(tool.name)
  for (const { content } of messages)
    for (const part of content) if (part.type === 'toolCall' || part.type === 'toolResult') fitOne(part.name)
  return fitted.size === 0 ? undefined : fitted
}

/** The request with the names that the vendor accepts. */
export function withFittedNames(request: ChatRequest, names: FittedNames | undefined): ChatRequest {
  if (names === undefined) return request
  const fittedName = (name: string) => names.get(name) ?? name
  const { tools, toolChoice, messages } = request
  return {
    ...request,
    messages: messages.map(
      (message): Message => ({ ...message, content: message.content.map(part => renamed(part, fittedName)) }),
    ),
    ...(tools && {
      tools: tools.map(
        (tool): Tool => (tool.type === 'vendor' ? tool : { ...tool, name: fittedName(tool.name) }),
      ),
    }),
    ...(toolChoice?.only && { toolChoice: { ...toolChoice, only: toolChoice.only.map(fittedName) } }),
  }
}

function renamed(part: Part, rename: (name: string) => string): Part {
  if (part.type !== 'toolCall' && part.type !== 'toolResult') return part
  return part.name === undefined ? part : { ...part, name: rename(part.name) }
}

function restoring(names: FittedNames): (name: string) => string {
  const originals = new Map([...names].map(([name, fitted]) => [fitted, name]))
  return name => originals.get(name) ?? name
}

/** The answer with the client's own names. */
export function withOwnNames(answer: ChatAnswer, names: FittedNames | undefined): ChatAnswer {
  if (names === undefined) return answer
  const restoreName = restoring(names)
  return {
    ...answer,
    choices: answer.choices.map(choice => ({
      ...choice,
      parts: choice.parts.map(part => renamed(part, restoreName)),
    })),
  }
}

/** The same for a stream: only the event that opens a call has its name. */
export function restoringNames(
  encoder: Stage<ChatEvent, Buffer>,
  names: FittedNames | undefined,
): Stage<ChatEvent, Buffer> {
  if (names === undefined) return encoder
  const restoreName = restoring(names)
  return {
    push: event =>
      encoder.push(
        event.type === 'open' ? { ...event, content: renamed(event.content, restoreName) } : event,
      ),
    end: () => encoder.end(),
  }
}
