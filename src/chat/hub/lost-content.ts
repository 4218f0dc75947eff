import type { Warning } from '../../domain/warning.ts'
import type { FieldReader } from './fields.ts'
import type { ChatRequest, Part } from './hub.ts'

/** The paths of parts in the client's request. In the hub, messages are joined and split, so their positions differ. */
const paths = new WeakMap<Part, string>()

/** Remembers where the client sent a part that some formats cannot express. */
export function atClientPath(part: Part, { isStrict, ownPath }: FieldReader): Part {
  if (isStrict && (part.type === 'media' || part.type === 'vendor')) paths.set(part, ownPath)
  return part
}

/** An encoder's warnings about lost parts, with the paths of the client. `request`: as it was decoded. */
export const withClientPaths = (request: ChatRequest, warnings: readonly Warning[]): readonly Warning[] =>
  warnings.some(isAboutPart) ? warnings.map(warning => withClientPath(request, warning)) : warnings

const PART = /^messages\[\d+\](?:\.content\[\d+\])+$/

const isAboutPart = ({ field, lostContent }: Warning) => lostContent !== undefined || PART.test(field)

function withClientPath(request: ChatRequest, warning: Warning): Warning {
  const part = isAboutPart(warning) ? partAt(request, warning.field) : undefined
  const field = part && paths.get(part)
  return field === undefined ? warning : { ...warning, field }
}

const INDEX = /\[(\d+)\]/g

/** The part at a path of the hub, such as `messages[2].content[0]`. */
function partAt({ messages }: ChatRequest, path: string): Part | undefined {
  const [message = 0, ...indexes] = Array.from(path.matchAll(INDEX), ([, index]) => Number(index))
  let parts = messages[message]?.content ?? []
  let part: Part | undefined
  for (const index of indexes) {
    part = parts[index]
    parts = part?.type === 'toolResult' ? part.content : []
  }
  // The path of a whole message stands for its first part that is no text.
  return part ?? parts.find(each => paths.has(each))
}
