import type { ChatAnswer, ChatEvent, Delta, Part } from './hub.ts'

/** The events of a stream for a complete answer. */
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
    // Log probabilities belong to the text, and are emitted with the first one.
    const firstText = parts.findIndex(part => part.type === 'text')
    const tokens: readonly ChatEvent[] =
      logprobs === undefined ? [] : [{ type: 'logprobs', choice, tokens: logprobs }]
    for (const [part, content] of parts.entries()) {
      events.push(...openPart(choice, part, content), ...(part === firstText ? tokens : []))
      events.push({ type: 'close', choice, part })
    }
    if (firstText === -1) events.push(...tokens)
    events.push({ type: 'finish', choice, stop })
  }
  if (usage !== undefined) events.push({ type: 'usage', usage })
  events.push({ type: 'end' })
  return events
}

/** Opens a part with content: growing parts open empty, and their content follows as deltas. */
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
      // The signature of a call stays in its opening event, where formats carry it.
      return [
        { type: 'open', choice, part, content: { ...content, arguments: '' } },
        ...(content.arguments === '' ? [] : [delta({ text: content.arguments })]),
      ]
    default:
      return [{ type: 'open', choice, part, content }]
  }
}
