import type { IdsAndClock } from '../../chat/hub/format.ts'
import type { ChatEvent } from '../../chat/hub/hub.ts'
import { outboundOf } from '../../chat/index.ts'

const IDS_AND_CLOCK: IdsAndClock = { newId: prefix => prefix, nowS: () => 0 }

/** The chat format of each path of the relay. */
const FORMAT_OF: readonly (readonly [RegExp, string])[] = [
  [/^\/v1\/chat\/completions/, 'openai-chat'],
  [/^\/v1\/messages/, 'anthropic'],
  [/^\/v1\/responses/, 'responses'],
  [/^\/v1(?:beta)?\/models\/.*[gG]enerateContent/, 'gemini'],
]

/** The text of the first choice of a stream. */
function textOfEvents(events: Iterable<ChatEvent>): string {
  const texts = new Set<number>()
  let text = ''
  for (const event of events) {
    if (!('choice' in event) || event.choice !== 0) continue
    if (event.type === 'open' && event.content.type === 'text') {
      texts.add(event.part)
      text += event.content.text
    }
    if (event.type === 'delta' && texts.has(event.part)) text += event.text ?? ''
  }
  return text
}

/** The text that a chat answers with; the whole body of an error or of another operation. */
export function textOfAnswer(path: string, { type, body }: { type: string; body: Buffer }): string {
  const raw = body.toString('utf8')
  const [, name] = FORMAT_OF.find(([pattern]) => pattern.test(path)) ?? []
  const format = name === undefined ? undefined : outboundOf(name)
  if (!format) return raw
  try {
    if (type.startsWith('text/event-stream')) {
      const decoder = format.createStreamDecoder({ idsAndClock: IDS_AND_CLOCK })
      return textOfEvents([...decoder.push(body), ...decoder.end()])
    }
    const answer = format.decodeAnswer(JSON.parse(raw), { idsAndClock: IDS_AND_CLOCK })
    if ('error' in answer) return raw
    const parts = answer.choices[0]?.parts ?? []
    return parts.map(part => (part.type === 'text' ? part.text : '')).join('')
  } catch {
    // Not an answer of this format, or truncated.
    return raw
  }
}
