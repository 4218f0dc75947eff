import type { Format, IdsAndClock } from './hub/format.ts'
import type { ChatEvent, ChatRequest, Part, StopReason } from './hub/hub.ts'
import { FORMATS } from './index.ts'

const IDS_AND_CLOCK: IdsAndClock = { newId: prefix => prefix, nowS: () => 0 }

/** The format of each path for chats. */
const PATHS: readonly (readonly [RegExp, Format['name']])[] = [
  [/^\/v1\/chat\/completions/, 'openai-chat'],
  [/^\/v1\/messages/, 'anthropic'],
  [/^\/v1\/responses/, 'responses'],
  [/^\/v1(?:beta)?\/models\/.*[gG]enerateContent/, 'gemini'],
]

const formatAt = (path: string): Format | undefined => {
  const [, name] = PATHS.find(([pattern]) => pattern.test(path)) ?? []
  return FORMATS.find(format => format.name === name)
}

/** The first choice of an answer. */
export type RecordedAnswer = { readonly parts: readonly Part[]; readonly stop: StopReason | undefined }

/** A part with the text of its deltas. Of media, only the kind remains. */
function withText(part: Part, text: string): Part {
  if (part.type === 'text' || part.type === 'reasoning' || part.type === 'refusal')
    return { ...part, text: part.text + text }
  if (part.type === 'toolCall') return { ...part, arguments: part.arguments + text }
  return part
}

function answerOfEvents(events: Iterable<ChatEvent>): RecordedAnswer {
  const opened = new Map<number, { readonly content: Part; text: string }>()
  let stop: StopReason | undefined
  for (const event of events) {
    if (!('choice' in event) || event.choice !== 0) continue
    if (event.type === 'open') opened.set(event.part, { content: event.content, text: '' })
    if (event.type === 'finish') stop = event.stop.reason
    const part = event.type === 'delta' ? opened.get(event.part) : undefined
    if (part && event.type === 'delta') part.text += event.text ?? ''
  }
  return { parts: [...opened.values()].map(({ content, text }) => withText(content, text)), stop }
}

type RecordedBody = { readonly type: string; readonly body: Buffer }

/** The answer to a recorded chat; undefined: another operation, an error, or not complete. */
export function readRecordedAnswer(path: string, { type, body }: RecordedBody): RecordedAnswer | undefined {
  const format = formatAt(path)
  if (!format) return undefined
  try {
    if (type.startsWith('text/event-stream')) {
      const decoder = format.createStreamDecoder({ idsAndClock: IDS_AND_CLOCK })
      return answerOfEvents([...decoder.push(body), ...decoder.end()])
    }
    const answer = format.decodeAnswer(JSON.parse(body.toString('utf8')), { idsAndClock: IDS_AND_CLOCK })
    if ('error' in answer) return undefined
    const [first] = answer.choices
    return { parts: first?.parts ?? [], stop: first?.stop.reason }
  } catch {
    // Not an answer of this format, or cut off.
    return undefined
  }
}

/** A recorded chat; undefined: another operation, or a body that cannot be read. */
export function readRecordedRequest(path: string, body: Buffer): ChatRequest | undefined {
  const format = formatAt(path)
  if (!format) return undefined
  try {
    // The path of some formats has the model, which is not needed here.
    const decoded = format.decodeRequest(JSON.parse(body.toString('utf8')), { model: 'recorded' })
    return 'request' in decoded ? decoded.request : undefined
  } catch {
    return undefined
  }
}
