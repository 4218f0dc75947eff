import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { transcriptsIn } from './corpus.ts'
import { hasRecordings } from './recordings.ts'

/**
 * Client requests and vendor responses of one wire format: the corpus first, then recordings if there are
 * any.
 */
export type FormatTranscripts = {
  readonly requests: readonly Named<unknown>[]
  readonly answers: readonly Named<unknown>[]
  readonly streams: readonly Named<Buffer>[]
  readonly errors: readonly (Named<unknown> & { readonly status: number })[]
}

type Named<T> = {
  readonly name: string
  readonly value: T
  /** Written exactly as the vendor of the format does, so that its SDK must be able to parse it. */
  readonly isPure?: boolean
}

/** Where the recordings of a format are stored. */
type Source = {
  /** Matches the URL of a recorded request. */
  readonly url: RegExp
  /** Folders whose loose files are in this format; `isAnswer` excludes files that are not responses. */
  readonly folders: readonly string[]
  readonly isAnswer: (body: Record<string, unknown>) => boolean
  /** Adds the original frames to the bare events of a `.chunks.txt`. */
  readonly frames: (lines: readonly string[], folder: string) => Buffer
  /** How the body of a recorded stream is stored. */
  readonly bodyKind?: string
}

const FOLDER = join(import.meta.dirname, '../../../shared/fixtures')

const dataFrames = (lines: readonly string[]) => Buffer.from(lines.map(line => `data: ${line}\n\n`).join(''))

const namedFrames = (lines: readonly string[]) =>
  Buffer.from(lines.map(line => `event: ${JSON.parse(line).type}\ndata: ${line}\n\n`).join(''))

export const SOURCES = {
  'openai-chat': {
    url: /\/chat\/completions/,
    folders: [
      'alibaba',
      'deepseek',
      'groq',
      'mistral',
      'moonshot',
      'openai-chat',
      'openai-compatible',
      'perplexity',
      'xai',
    ],
    isAnswer: body => Array.isArray(body.choices),
    frames: (lines, folder) => dataFrames(folder === 'perplexity' ? lines : [...lines, '[DONE]']),
  },
  anthropic: {
    url: /\/v1\/messages/,
    folders: ['anthropic'],
    isAnswer: body => body.type === 'message',
    frames: namedFrames,
  },
  responses: {
    url: /\/responses$/,
    folders: ['openai-responses'],
    isAnswer: body => body.object === 'response',
    frames: namedFrames,
  },
  gemini: {
    url: /:(stream)?generateContent/i,
    folders: ['gemini', 'vertex'],
    isAnswer: body => Array.isArray(body.candidates),
    frames: dataFrames,
  },
  bedrock: {
    url: /\/converse(-stream)?$/,
    folders: [],
    isAnswer: () => false,
    frames: dataFrames,
    bodyKind: 'eventstream-base64',
  },
  cohere: {
    url: /\/v2\/chat$/,
    folders: ['cohere'],
    isAnswer: body => typeof body.finish_reason === 'string',
    frames: namedFrames,
  },
  ollama: {
    url: /\/api\/chat$/,
    folders: [],
    isAnswer: () => false,
    frames: dataFrames,
    bodyKind: 'ndjson',
  },
} as const satisfies Record<string, Source>

type Interaction = {
  readonly request: { readonly url: string; readonly body?: unknown }
  readonly response: { readonly status: number; readonly bodyKind: string; readonly body: unknown }
}

const read = (path: string) => readFileSync(join(FOLDER, path), 'utf8')

function files(): readonly string[] {
  return readdirSync(FOLDER, { recursive: true, encoding: 'utf8' })
}

export function transcriptsOf(format: keyof typeof SOURCES): FormatTranscripts {
  const own = ownTranscripts(format)
  if (!hasRecordings) return own
  const recorded = recordingsOf(format)
  return {
    requests: [...own.requests, ...recorded.requests],
    answers: [...own.answers, ...recorded.answers],
    streams: [...own.streams, ...recorded.streams],
    errors: [...own.errors, ...recorded.errors],
  }
}

function ownTranscripts(format: string): FormatTranscripts {
  const all = transcriptsIn(format)
  return {
    requests: all.flatMap(({ name, request }) =>
      request === undefined ? [] : [{ name, value: { model: 'in-the-path', ...request } }],
    ),
    answers: all.flatMap(({ name, vendor, status, answer }) =>
      status === 200 && answer !== undefined ? [{ name, value: answer, isPure: vendor === undefined }] : [],
    ),
    streams: all.flatMap(({ name, vendor, stream }) =>
      stream === undefined ? [] : [{ name, value: stream, isPure: vendor === undefined }],
    ),
    errors: all.flatMap(({ name, status, answer }) =>
      status >= 400 ? [{ name, status, value: answer }] : [],
    ),
  }
}

function recordingsOf(format: keyof typeof SOURCES): FormatTranscripts {
  const source: Source = SOURCES[format]
  const all = files()
  const loose = all.filter(path => source.folders.some(folder => path.startsWith(`${folder}/`)))
  const exchanges = all
    .filter(path => path.endsWith('.cassette.json'))
    .flatMap(path => exchangesIn(path, source.url))
  const succeeded = exchanges.filter(({ status }) => status === 200)
  return {
    requests: exchanges
      .filter(({ request }) => typeof request === 'object')
      .map(({ name, request }) => ({ name, value: request })),
    answers: [
      ...succeeded.filter(({ kind }) => kind === 'json').map(({ name, body }) => ({ name, value: body })),
      ...loose
        .filter(path => path.endsWith('.json') && !path.endsWith('.cassette.json'))
        .map(path => ({ name: path, value: JSON.parse(read(path)) }))
        .filter(({ value }) => source.isAnswer(value)),
    ],
    streams: [
      ...succeeded
        .filter(({ kind }) => kind === (source.bodyKind ?? 'sse'))
        .map(({ name, kind, body }) => ({ name, value: bytesOf(kind, String(body)) })),
      ...loose
        .filter(path => path.endsWith('.sse'))
        .map(path => ({ name: path, value: Buffer.from(read(path)) })),
      ...loose
        .filter(path => path.endsWith('.chunks.txt'))
        .map(path => ({ name: path, value: source.frames(linesIn(path), path.split('/')[0] as string) })),
    ],
    errors: exchanges
      .filter(({ status, kind }) => status >= 400 && kind === 'json')
      .map(({ name, status, body }) => ({ name, status, value: body })),
  }
}

const bytesOf = (kind: string, body: string) => Buffer.from(body, kind.endsWith('base64') ? 'base64' : 'utf8')

const linesIn = (path: string) => read(path).split('\n').filter(Boolean)

function exchangesIn(path: string, url: RegExp) {
  const { interactions } = JSON.parse(read(path)) as { interactions: readonly Interaction[] }
  return interactions
    .map(({ request, response }, index) => ({
      name: `${path.replace('.cassette.json', '')}#${index}`,
      url: request.url,
      request: request.body,
      status: response.status,
      kind: response.bodyKind,
      body: response.body,
    }))
    .filter(exchange => url.test(exchange.url))
}
