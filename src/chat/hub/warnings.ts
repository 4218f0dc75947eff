import { isObject, type JsonObject } from '../../domain/json-value.ts'
import type { Warning } from '../../domain/warning.ts'
import type { ChatRequest, Extras, Part } from './hub.ts'

/** Collects the parts of a request that an encoder cannot express. */
export type Warnings = {
  /** `field`: the path in the hub, such as `messages[2].content[0]` or `seed`. */
  lost(field: string, message: string): void
  /**
   * The same for content: a part of a message or tool result, or a function. The relay refuses such a request unless its
   * client accepts the loss. `reason`: "media of the type audio cannot be sent".
   */
  lostContent(field: string, reason: string): void
  /** The same for a part that the format lacks, or does not take at this place. */
  lostPart(field: string, part: Part): void
  /** The same for a field that the format lacks; `what` describes it if the name does not. */
  unsupported(field: string, what?: string): void
  /** Fields of an object that only other formats have. `path` ends with a dot, or is empty for the request itself. */
  foreign(path: string, source: { readonly extras?: Extras }): void
  list(): readonly Warning[]
}

const leftOut = (reason: string) => `${reason} and was left out`
const notHere = ({ type }: Part) => `a part of the type ${type} is not supported here`

/** A vendor's part is named by its type, or by its only member. */
const withoutCounterpart = ({ value }: Extract<Part, { type: 'vendor' }>) =>
  `a part of the type ${value.type ?? Object.keys(value)[0]} has no counterpart`

/** The warnings are sent in a header, so only the first ones are reported. */
const MAX_WARNINGS = 32

/** Objects that decoders read field by field: extras contain the other fields only. */
const READ_BY_FIELD: ReadonlySet<string> = new Set([
  'functionCallingConfig',
  'generationConfig',
  'output_config',
  'reasoning',
  'stream_options',
  'text',
  'thinkingConfig',
  'toolConfig',
])

const MESSAGE = /^messages\[(\d+)\]/

/** The warnings about a chat. `home`: the formats whose extras can be sent. */
export const createChatWarnings = (
  { messages }: Pick<ChatRequest, 'messages'>,
  ...home: readonly string[]
): Warnings => collectWarnings(home, path => messages[Number(MESSAGE.exec(path)?.[1])]?.role === 'assistant')

/** The warnings about a request without messages. */
export const createWarnings = (...home: readonly string[]): Warnings => collectWarnings(home, () => false)

function collectWarnings(home: readonly string[], isOfAnswer: (path: string) => boolean): Warnings {
  const warnings: Warning[] = []
  const add = (warning: Warning) => {
    const { field, message, lostContent } = warning
    const isReported = warnings.some(each => each.field === field && each.message === message)
    if (isReported) return
    if (warnings.length < MAX_WARNINGS) warnings.push(warning)
    // A request with lost content must be recognizable as such, however many parameters it loses.
    else if (lostContent !== undefined && !warnings.some(each => each.lostContent !== undefined))
      warnings[MAX_WARNINGS - 1] = warning
  }
  const lost = (field: string, message: string) => add({ field, message })
  const unsupported = (field: string, what?: string) =>
    lost(field, `${what === undefined ? '' : `${what} `}has no counterpart and was left out`)
  function unsupportedFields(path: string, fields: JsonObject): void {
    for (const [name, value] of Object.entries(fields)) {
      if (READ_BY_FIELD.has(name) && isObject(value)) unsupportedFields(`${path}${name}.`, value)
      // Clients send null for fields that they do not set.
      else if (value !== null) unsupported(`${path}${name}`)
    }
  }
  const lostContent = (field: string, reason: string) =>
    add({ field, message: leftOut(reason), lostContent: reason })
  return {
    lost,
    lostContent,
    lostPart(field, part) {
      const reason = part.type === 'vendor' ? withoutCounterpart(part) : notHere(part)
      // Calls and results of tools that another vendor ran belong to its earlier answers: the client did not add them.
      const isIncidental = part.type === 'reasoning' || (part.type === 'vendor' && isOfAnswer(field))
      if (isIncidental) lost(field, leftOut(reason))
      else lostContent(field, reason)
    },
    unsupported,
    foreign(path, { extras = {} }) {
      for (const [format, fields] of Object.entries(extras)) {
        if (!home.includes(format)) unsupportedFields(path, fields)
      }
    },
    list: () => warnings,
  }
}
