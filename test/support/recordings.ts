import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { transcriptsIn } from './corpus.ts'

/** Recorded vendor traffic is kept beside the project, not in it, because of its licences. */
const FOLDER = join(import.meta.dirname, '../../../shared/fixtures')

export const hasRecordings = existsSync(join(FOLDER, 'index.json'))
export const WITHOUT_RECORDINGS = 'skipped: no recordings of vendors at ../shared/fixtures'

export type Recording = { readonly name: string; readonly vendor: string }
export type StreamRecording = Recording & { readonly bytes: Buffer }
export type WholeRecording = Recording & { readonly request: unknown; readonly answer: unknown }

type Interaction = {
  readonly request: { readonly url: string; readonly body?: unknown }
  readonly response: { readonly status: number; readonly bodyKind: string; readonly body: unknown }
}
type Cassette = { readonly interactions: readonly Interaction[] }

/** Folders whose loose files are in the format of chat completions. */
const CHAT_FOLDERS = [
  'alibaba',
  'deepseek',
  'groq',
  'mistral',
  'moonshot',
  'openai-chat',
  'openai-compatible',
  'perplexity',
  'xai',
]

/** Ends its streams without `[DONE]`. */
const WITHOUT_DONE = ['perplexity']

const read = (path: string) => readFileSync(join(FOLDER, path), 'utf8')

function filesIn(folders: readonly string[], ending: string): readonly string[] {
  return folders.flatMap(folder =>
    readdirSync(join(FOLDER, folder))
      .filter(file => file.endsWith(ending))
      .map(file => join(folder, file)),
  )
}

function allFolders(): readonly string[] {
  return readdirSync(FOLDER, { withFileTypes: true })
    .filter(entry => entry.isDirectory())
    .map(entry => entry.name)
}

const vendorOf = (path: string) => path.split('/')[0] as string

function interactions(path: string): readonly (Interaction & Recording)[] {
  const { interactions } = JSON.parse(read(path)) as Cassette
  return interactions.map((each, index) => ({
    ...each,
    name: `${vendorOf(path)}/${basename(path, '.cassette.json')}#${index}`,
    vendor: vendorOf(path),
  }))
}

const recorded = () => filesIn(allFolders(), '.cassette.json').flatMap(interactions)

/** Folders of the corpus whose responses have OpenAI's format, by the end of the path. */
const CORPUS_FOLDERS = {
  completions: ['openai-chat', 'openai-completions'],
  embeddings: ['embeddings'],
} as const

/** The streams of chat completions: those of the corpus, then all recorded ones. */
export function chatStreams(): readonly StreamRecording[] {
  const own = CORPUS_FOLDERS.completions
    .flatMap(transcriptsIn)
    .flatMap(({ name, vendor = 'openai', stream }) => (stream ? [{ name, vendor, bytes: stream }] : []))
  return [...own, ...recordedStreams()]
}

/** Adds the original frames to recordings that are stored as bare chunks. */
function recordedStreams(): readonly StreamRecording[] {
  if (!hasRecordings) return []
  const cassettes = recorded()
    .filter(({ request, response }) => /\/completions/.test(request.url) && response.bodyKind === 'sse')
    .map(({ name, vendor, response }) => ({ name, vendor, bytes: Buffer.from(String(response.body)) }))
  const raw = filesIn(CHAT_FOLDERS, '.sse').map(path => ({
    name: path,
    vendor: vendorOf(path),
    bytes: Buffer.from(read(path)),
  }))
  const chunks = filesIn(CHAT_FOLDERS, '.chunks.txt').map(path => {
    const lines = read(path).split('\n').filter(Boolean)
    const events = WITHOUT_DONE.includes(vendorOf(path)) ? lines : [...lines, '[DONE]']
    const bytes = Buffer.from(events.map(line => `data: ${line}\n\n`).join(''))
    return { name: path, vendor: vendorOf(path), bytes }
  })
  return [...cassettes, ...raw, ...chunks]
}

/**
 * Successful non-streamed responses to requests at a path with this end, with the request: of the corpus,
 * then all recorded ones.
 */
export function wholeAnswers(path: 'completions' | 'embeddings'): readonly WholeRecording[] {
  const own = CORPUS_FOLDERS[path]
    .flatMap(transcriptsIn)
    .filter(({ status, answer }) => status === 200 && hasOpenAiShape(answer))
    .map(({ name, vendor = 'openai', request, answer }) => ({ name, vendor, request, answer }))
  return [...own, ...recordedAnswers(path)]
}

/** Google responds to a request for embeddings in its own format. */
const hasOpenAiShape = (answer: unknown): boolean =>
  typeof answer === 'object' && answer !== null && ('choices' in answer || 'data' in answer)

function recordedAnswers(path: string): readonly WholeRecording[] {
  if (!hasRecordings) return []
  return recorded()
    .filter(
      ({ request, response }) => request.url.split('?')[0]?.endsWith(`/${path}`) && response.status === 200,
    )
    .filter(({ response }) => response.bodyKind !== 'sse')
    .map(({ name, vendor, request, response }) => ({
      name,
      vendor,
      request: request.body,
      answer: response.body,
    }))
}

/** A request with a JSON body, as a client or a vendor's SDK wrote it. */
export type ClientRequest = {
  readonly name: string
  /** Gemini's names have two spellings. */
  readonly isGemini: boolean
  readonly body: object
}

/** The formats and operations that clients may use. */
const CLIENT_FOLDERS = [
  ...['openai-chat', 'openai-completions', 'responses', 'anthropic', 'gemini'],
  ...['embeddings', 'images', 'moderation', 'rerank'],
]

/** The requests of the corpus, then all recorded ones. */
export function clientRequests(): readonly ClientRequest[] {
  const own = CLIENT_FOLDERS.flatMap(folder =>
    transcriptsIn(folder).flatMap(({ name, request }) =>
      request ? [{ name, isGemini: folder === 'gemini', body: request }] : [],
    ),
  )
  return [...own, ...recordedRequests()]
}

function recordedRequests(): readonly ClientRequest[] {
  if (!hasRecordings) return []
  return recorded().flatMap(({ name, vendor, request: { url, body } }) => {
    // Clients cannot use Bedrock's format.
    if (vendor === 'bedrock' || typeof body !== 'object' || body === null) return []
    return [{ name, isGemini: /googleapis/.test(url) && !/openai/.test(url), body }]
  })
}
