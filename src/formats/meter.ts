import type { Usage } from '../domain/usage.ts'
import type { ChatError, ChatEvent } from './hub.ts'

/** What the events of an answer have shown so far: all that billing and the log need, however long the answer is. */
export type EventReading = {
  /** The last one told. */
  readonly usage: Usage | undefined
  /** UTF-8 bytes of what the model wrote, for a count where no usage is told. */
  readonly textBytes: number
  readonly reasoningBytes: number
  /** Whether something of the answer itself has come; a role or an id is nothing yet. */
  readonly hasContent: boolean
  readonly error: ChatError | undefined
  readonly isEnded: boolean
}

export type EventMeter = { readonly reading: EventReading; read(event: ChatEvent): void }

/** Meters an answer in any format; where bytes pass untouched, a decoder beside them feeds it. */
export function createEventMeter(): EventMeter {
  const reading: { -readonly [Name in keyof EventReading]: EventReading[Name] } = {
    usage: undefined,
    textBytes: 0,
    reasoningBytes: 0,
    hasContent: false,
    error: undefined,
    isEnded: false,
  }
  // Parts of an answer are few; which of them are thoughts is all that is kept of them.
  const thoughts = new Set<string>()

  return {
    reading,
    read(event) {
      switch (event.type) {
        case 'open':
          reading.hasContent = true
          if (event.content.type === 'reasoning') thoughts.add(`${event.choice}.${event.part}`)
          else if (event.content.type === 'toolCall')
            reading.textBytes += Buffer.byteLength(event.content.name)
          break
        case 'delta': {
          const bytes = event.text === undefined ? 0 : Buffer.byteLength(event.text)
          if (thoughts.has(`${event.choice}.${event.part}`)) reading.reasoningBytes += bytes
          else reading.textBytes += bytes
          break
        }
        case 'usage':
          reading.usage = event.usage
          break
        case 'error':
          reading.error = event.error
          break
        case 'end':
          reading.isEnded = true
          break
        default:
      }
    },
  }
}
