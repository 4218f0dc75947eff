import type {
  ChatAnswer,
  ChatError,
  ChatEvent,
  Choice,
  Citation,
  Delta,
  MediaPart,
  Part,
  Stop,
  TokenLogprob,
} from '../../src/chat/hub/hub.ts'
import type { Usage } from '../../src/domain/usage.ts'

type Growing = {
  part: Part
  pieces: string[]
  data: string[]
  citations: Citation[]
  changes: Partial<Record<'signature' | 'encrypted', unknown>>
}
type GrowingChoice = { parts: Growing[]; stop: Stop | undefined; logprobs: TokenLogprob[] }

type Gathered = { readonly answer: ChatAnswer } | { readonly error: ChatError }

/** Collects the events of a complete stream. A choice without a finish reason has the reason stop. */
export function answerOf(events: Iterable<ChatEvent>): Gathered {
  let start: Extract<ChatEvent, { type: 'start' }> | undefined
  let usage: Usage | undefined
  const choices: GrowingChoice[] = []
  const choiceAt = (index: number): GrowingChoice => {
    choices[index] ??= { parts: [], stop: undefined, logprobs: [] }
    return choices[index]
  }

  for (const event of events) {
    switch (event.type) {
      case 'start':
        start ??= event
        break
      case 'open':
        choiceAt(event.choice).parts[event.part] = growing(event.content)
        break
      case 'delta':
        grow(choiceAt(event.choice).parts[event.part], event)
        break
      case 'logprobs':
        choiceAt(event.choice).logprobs.push(...event.tokens)
        break
      case 'finish':
        choiceAt(event.choice).stop = event.stop
        break
      case 'usage':
        usage = event.usage
        break
      case 'error':
        return { error: event.error }
      default:
    }
  }
  return {
    answer: {
      id: start?.id ?? '',
      model: start?.model ?? '',
      ...(start?.createdS !== undefined && { createdS: start.createdS }),
      ...(start?.extras !== undefined && { extras: start.extras }),
      choices: Array.from(choices, grown),
      ...(usage !== undefined && { usage }),
    },
  }
}

const growing = (part: Part): Growing => ({ part, pieces: [], data: [], citations: [], changes: {} })

function grow(growing: Growing | undefined, { text, data, citation, signature, encrypted }: Delta): void {
  if (growing === undefined) return
  if (text !== undefined) growing.pieces.push(text)
  if (data !== undefined) growing.data.push(data)
  if (citation !== undefined) growing.citations.push(citation)
  if (signature !== undefined) growing.changes.signature = signature
  if (encrypted !== undefined) growing.changes.encrypted = encrypted
}

function grown(choice: GrowingChoice | undefined): Choice {
  if (choice === undefined) return { parts: [], stop: { reason: 'stop' } }
  const { parts, stop, logprobs } = choice
  return {
    parts: parts.filter(part => part !== undefined).map(grownPart),
    stop: stop ?? { reason: 'stop' },
    ...(logprobs.length > 0 && { logprobs }),
  }
}

function grownPart({ part, pieces, data, citations, changes }: Growing): Part {
  const added = pieces.join('')
  switch (part.type) {
    case 'text': {
      const all = [...(part.citations ?? []), ...citations]
      return {
        ...part,
        text: part.text + added,
        ...(all.length > 0 && { citations: all }),
        ...changes,
      } as Part
    }
    case 'reasoning':
      return { ...part, text: part.text + added, ...changes } as Part
    case 'refusal':
      return { ...part, text: part.text + added }
    case 'toolCall':
      return { ...part, arguments: part.arguments + added, ...changes } as Part
    case 'media':
      return grownMedia(part, added, data.join(''))
    default:
      return part
  }
}

function grownMedia(part: MediaPart, transcript: string, data: string): MediaPart {
  const source = data !== '' && 'data' in part.source ? { data: part.source.data + data } : part.source
  return {
    ...part,
    source,
    ...(transcript !== '' && { transcript: (part.transcript ?? '') + transcript }),
  }
}
