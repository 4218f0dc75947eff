import type { Part, StopReason } from '../chat/hub/hub.ts'
import { readRecordedAnswer, readRecordedRequest } from '../chat/recorded.ts'
import type { KeptBodies } from '../relay/bodies/bodies.ts'

/** Longer bodies are not in spans: receivers cut or refuse long attributes. */
const MAX_BYTES = 65_536

const ROLES: Readonly<Record<string, string>> = { developer: 'system' }

const FINISH_REASONS: Readonly<Record<StopReason, string>> = {
  stop: 'stop',
  sequence: 'stop',
  pause: 'stop',
  length: 'length',
  context: 'length',
  tools: 'tool_call',
  filter: 'content_filter',
}

/** The arguments of a call are JSON, unless the model made a mistake or the tool takes free text. */
function argumentsOf(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

/** A part of a message by the GenAI conventions. Of media, only the kind is kept. */
function messagePart(part: Part): unknown {
  switch (part.type) {
    case 'text':
    case 'refusal':
      return { type: 'text', content: part.text }
    case 'reasoning':
      return { type: 'reasoning', content: part.text }
    case 'toolCall':
      return { type: 'tool_call', id: part.id, name: part.name, arguments: argumentsOf(part.arguments) }
    case 'toolResult':
      return { type: 'tool_call_response', id: part.callId, response: part.content.map(messagePart) }
    case 'media':
      return { type: part.kind }
    case 'vendor':
      return { type: 'vendor' }
  }
}

export type SpanMessages = { readonly input: string | undefined; readonly output: string | undefined }

/**
 * The messages of a chat whose bodies are kept, as JSON by the GenAI conventions of OpenTelemetry. Undefined: another
 * operation, a body that cannot be read, or one that is too long.
 */
export function spanMessages({ path, bodies, answerType }: KeptBodies): SpanMessages {
  const { request, answer } = bodies()
  const chat = request.length <= MAX_BYTES ? readRecordedRequest(path, request) : undefined
  const choice =
    answer.length <= MAX_BYTES ? readRecordedAnswer(path, { type: answerType, body: answer }) : undefined
  const input = chat?.messages.map(({ role, content }) => ({
    role: ROLES[role] ?? role,
    parts: content.map(messagePart),
  }))
  const output = choice && [
    {
      role: 'assistant',
      parts: choice.parts.map(messagePart),
      ...(choice.stop && { finish_reason: FINISH_REASONS[choice.stop] }),
    },
  ]
  return { input: input && JSON.stringify(input), output: output && JSON.stringify(output) }
}
