import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { EventStreamCodec } from '@smithy/eventstream-codec'

/** The project's own transcripts; test/corpus/README.md describes the files. */
const FOLDER = join(import.meta.dirname, '../corpus')

/** One exchange: a request, its response, or both. */
export type Transcript = {
  readonly name: string
  readonly about: string
  /**
   * The vendor, if it is not the one that defines the format: a compatible host, or one of several for media.
   */
  readonly vendor?: string
  readonly request?: object
  readonly status: number
  /** A non-streamed response: a success, or an error if the status says so. */
  readonly answer?: unknown
  readonly stream?: Buffer
  /** What the gateway must parse from the response. */
  readonly expected?: unknown
}

/** One line of a file. */
export type CorpusLine = {
  readonly about?: string
  readonly vendor?: string
  readonly request?: object
  readonly answer?: unknown
  readonly status?: number
  readonly expected?: unknown
  /** An event of a stream; the format adds the frame. */
  readonly event?: Readonly<Record<string, unknown>>
  /** Bedrock only: an exception in place of an event. */
  readonly exception?: Readonly<Record<string, unknown>>
  /** Raw bytes of a stream: a terminator, a comment, an unusual line end. */
  readonly raw?: string
}

type Frame = (event: Readonly<Record<string, unknown>>) => string | Buffer

const dataFrame: Frame = event => `data: ${JSON.stringify(event)}\n\n`
const namedFrame: Frame = event => `event: ${event.type}\n${dataFrame(event)}`
const binaryFrame =
  (kind: 'event' | 'exception'): Frame =>
  event => {
    const [[name, payload] = ['', {}]] = Object.entries(event)
    return eventFrame(name, payload, kind)
  }

const FRAMES: Readonly<Record<string, Frame>> = {
  anthropic: namedFrame,
  responses: namedFrame,
  cohere: namedFrame,
  gemini: event => `data: ${JSON.stringify(event)}\r\n\r\n`,
  ollama: event => `${JSON.stringify(event)}\n`,
  bedrock: binaryFrame('event'),
}

/**
 * How the events of a folder are framed: as server-sent events without names, unless the format has its own
 * framing.
 */
export const frameOf = (folder: string): Frame => FRAMES[folder] ?? dataFrame

/** A frame of an AWS event stream; the type of an exception replaces that of an event. */
export function eventFrame(name: string, payload: unknown, kind: 'event' | 'exception' = 'event'): Buffer {
  const codec = new EventStreamCodec(
    bytes => Buffer.from(bytes as Uint8Array).toString(),
    text => Buffer.from(text),
  )
  const text = (value: string) => ({ type: 'string', value }) as const
  const headers = {
    [`:${kind}-type`]: text(name),
    ':content-type': text('application/json'),
    ':message-type': text(kind),
  }
  return Buffer.from(codec.encode({ headers, body: Buffer.from(JSON.stringify(payload)) }))
}

/** The transcripts of one folder of the corpus, in the order of their names. */
export function transcriptsIn(folder: string): readonly Transcript[] {
  return readdirSync(join(FOLDER, folder))
    .filter(file => file.endsWith('.jsonl'))
    .sort()
    .map(file => {
      const text = readFileSync(join(FOLDER, folder, file), 'utf8')
      return readTranscript(folder, file.replace('.jsonl', ''), text)
    })
}

export function readTranscript(folder: string, file: string, text: string): Transcript {
  const name = `corpus/${folder}/${file}`
  const lines = text
    .split('\n')
    .filter(line => line !== '')
    .map(line => JSON.parse(line) as CorpusLine)
  const { event: _event, exception: _exception, raw: _raw, about = '', ...rest } = Object.assign({}, ...lines)
  const frames = lines.flatMap(line => framesOf(folder, line))
  return {
    status: 200,
    ...rest,
    name,
    about,
    ...(frames.length > 0 && { stream: Buffer.concat(frames) }),
  }
}

function framesOf(folder: string, { event, exception, raw }: CorpusLine): readonly Buffer[] {
  if (event !== undefined) return [Buffer.from(frameOf(folder)(event) as string)]
  if (exception !== undefined) return [Buffer.from(binaryFrame('exception')(exception) as Buffer)]
  return raw === undefined ? [] : [Buffer.from(raw)]
}
