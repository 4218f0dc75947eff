import { IncomingMessage } from 'node:http'
import { createRequire } from 'node:module'
import type { Socket } from 'node:net'

type Callback = (...values: readonly never[]) => unknown
type Parser = {
  [callback: number]: Callback
  initialize(type: number, resource: object, maxHeaderSize: number, lenientFlags: number): void
  execute(bytes: Buffer): number | Error
}
/** The parser that node:http uses. It has no public name. */
const { HTTPParser, methods } = createRequire(import.meta.url)('_http_common') as {
  readonly HTTPParser: (new () => Parser) &
    Readonly<
      Record<'REQUEST' | 'kOnHeaders' | 'kOnHeadersComplete' | 'kOnBody' | 'kOnMessageComplete', number>
    >
  readonly methods: readonly string[]
}

const MAX_HEADER_BYTES = 16_384

export type ParsedRequest = {
  readonly method: string
  readonly url: string
  readonly version: string
  readonly headers: IncomingMessage['headers']
  readonly bodyBytes: number
  readonly isUpgrade: boolean
  readonly keepsAlive: boolean
  /** How many messages the bytes contain. */
  readonly messages: number
}

/** Reads bytes as node:http does; undefined if it refuses them or finds no complete message. */
export function createOracle() {
  const parser = new HTTPParser()
  return (bytes: Buffer): ParsedRequest | undefined => {
    let parsed: Omit<ParsedRequest, 'bodyBytes' | 'messages'> | undefined
    let pairs: string[] = []
    let sentUrl = ''
    let bodyBytes = 0
    let messages = 0
    parser.initialize(HTTPParser.REQUEST, {}, MAX_HEADER_BYTES, 0)
    const on = (name: number, callback: (...values: never[]) => unknown) => {
      parser[name] = callback as Callback
    }
    // Many headers arrive in parts.
    on(HTTPParser.kOnHeaders, (part: string[], url: string) => {
      pairs = [...pairs, ...part]
      sentUrl += url
    })
    on(
      HTTPParser.kOnHeadersComplete,
      (
        major: number,
        minor: number,
        rest: string[] | undefined,
        method: number,
        url: string | undefined,
        _status: unknown,
        _reason: unknown,
        isUpgrade: boolean,
        keepsAlive: boolean,
      ) => {
        pairs = [...pairs, ...(rest ?? [])]
        const message = new IncomingMessage(undefined as unknown as Socket) as IncomingMessage & {
          _addHeaderLines(lines: readonly string[], count: number): void
        }
        message._addHeaderLines(pairs, pairs.length)
        parsed = {
          method: methods[method] ?? '',
          url: sentUrl + (url ?? ''),
          version: `${major}.${minor}`,
          headers: message.headers,
          isUpgrade,
          keepsAlive,
        }
        return 0
      },
    )
    on(HTTPParser.kOnBody, (part: Buffer) => {
      bodyBytes += part.length
    })
    on(HTTPParser.kOnMessageComplete, () => {
      messages += 1
    })
    const result = parser.execute(bytes)
    if (result instanceof Error || parsed === undefined || messages === 0) return undefined
    return { ...parsed, bodyBytes, messages }
  }
}
