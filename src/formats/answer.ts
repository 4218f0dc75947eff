import type { Usage } from '../domain/usage.ts'
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
} from './hub.ts'

type Growing = {
  part: Part
  pieces: string[]
  data: string[]
  citations: Citation[]
  changes: Partial<Record<'signature' | 'encrypted', unknown>>
}
type GrowingChoice = { parts: Growing[]; stop: Stop | undefined; logprobs: TokenLogprob[] }

export type Gathered = { readonly answer: ChatAnswer } | { readonly error: ChatError }

/** Gathers the events of a whole stream. A choice that gave no reason to stop has simply stopped. */
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

/** The same answer as a stream would have told it. */
export function eventsOf(answer: ChatAnswer): readonly ChatEvent[] {
  const { id, model, createdS, extras, choices, usage } = answer
  const events: ChatEvent[] = [
    {
      type: 'start',
      id,
      model,
      ...(createdS !== undefined && { createdS }),
      ...(extras !== undefined && { extras }),
    },
  ]
  for (const [choice, { parts, stop, logprobs }] of choices.entries()) {
    // Tokens are those of the text, and told while it is.
    const said = parts.findIndex(part => part.type === 'text')
    const tokens: readonly ChatEvent[] =
      logprobs === undefined ? [] : [{ type: 'logprobs', choice, tokens: logprobs }]
    for (const [part, content] of parts.entries()) {
      events.push(...openPart(choice, part, content), ...(part === said ? tokens : []))
      events.push({ type: 'close', choice, part })
    }
    if (said === -1) events.push(...tokens)
    events.push({ type: 'finish', choice, stop })
  }
  if (usage !== undefined) events.push({ type: 'usage', usage })
  events.push({ type: 'end' })
  return events
}

/** Opens a part that already has content: what grows opens empty, and its content follows as deltas. */
export function openPart(choice: number, part: number, content: Part): readonly ChatEvent[] {
  const delta = (added: Delta): ChatEvent => ({ type: 'delta', choice, part, ...added })
  switch (content.type) {
    case 'text': {
      const { text, citations = [], signature, ...rest } = content
      return [
        { type: 'open', choice, part, content: { ...rest, text: '' } },
        ...(text === '' ? [] : [delta({ text })]),
        ...citations.map(citation => delta({ citation })),
        ...(signature === undefined ? [] : [delta({ signature })]),
      ]
    }
    case 'reasoning': {
      const { text, signature, encrypted, ...rest } = content
      return [
        { type: 'open', choice, part, content: { ...rest, text: '' } },
        ...(text === '' ? [] : [delta({ text })]),
        ...(signature === undefined ? [] : [delta({ signature })]),
        ...(encrypted === undefined ? [] : [delta({ encrypted })]),
      ]
    }
    case 'refusal':
      return [
        { type: 'open', choice, part, content: { ...content, text: '' } },
        ...(content.text === '' ? [] : [delta({ text: content.text })]),
      ]
    case 'toolCall':
      // A call's signature stays with its beginning: formats that carry one carry it there.
      return [
        { type: 'open', choice, part, content: { ...content, arguments: '' } },
        ...(content.arguments === '' ? [] : [delta({ text: content.arguments })]),
      ]
    default:
      return [{ type: 'open', choice, part, content }]
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
