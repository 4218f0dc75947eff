import { ApiError } from '../../api/errors.ts'
import { sendRequest } from './send-request.ts'

export type MessagePart =
  | { readonly type: 'text'; readonly text: string }
  | { readonly type: 'image_url'; readonly image_url: { readonly url: string } }
export type ChatMessage = {
  readonly role: 'system' | 'user' | 'assistant'
  readonly content: string | readonly MessagePart[]
}
export type ChatBody = { readonly model: string; readonly messages: readonly ChatMessage[] } & Readonly<
  Record<string, unknown>
>

type ChatRequest = {
  readonly tokenId: number | undefined
  readonly body: ChatBody
  readonly signal?: AbortSignal
  /** Called for each piece of the response. */
  readonly onText: (kind: 'content' | 'reasoning' | 'tools', text: string) => void
}

export const CHAT_PATH = '/v1/chat/completions'

/** Requests are always streamed, with usage at the end. */
export const streamed = (body: ChatBody) => ({
  ...body,
  stream: true,
  stream_options: { include_usage: true },
})

export type ChatResult = {
  readonly requestId: string
  readonly firstMs: number | undefined
  readonly totalMs: number
  readonly finish: string | undefined
  readonly promptTokens: number | undefined
  readonly completionTokens: number | undefined
}

type Delta = {
  readonly content?: string | null
  readonly reasoning_content?: string | null
  readonly tool_calls?: readonly {
    readonly function?: { readonly name?: string; readonly arguments?: string }
  }[]
}
type Chunk = {
  readonly choices?: readonly {
    readonly delta?: Delta
    readonly finish_reason?: string | null
  }[]
  readonly usage?: { readonly prompt_tokens?: number; readonly completion_tokens?: number } | null
  readonly error?: { readonly message?: string; readonly code?: string | null }
}

/** Yields complete `data:` lines, regardless of chunk boundaries. */
async function* dataLines(stream: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const reader = stream
    .pipeThrough(new TextDecoderStream() as never)
    .getReader() as ReadableStreamDefaultReader<string>
  let rest = ''
  for (;;) {
    const { done, value } = await reader.read()
    if (done) return
    const lines = (rest + value).split(/\r?\n/)
    rest = lines.pop() ?? ''
    for (const line of lines) if (line.startsWith('data:')) yield line.slice(5).trim()
  }
}

/** A piece of a tool call: its name first, then its arguments. */
const toolText = (calls: NonNullable<Delta['tool_calls']>) =>
  calls
    .map(({ function: called }) => `${called?.name ? `${called.name} ` : ''}${called?.arguments ?? ''}`)
    .join('')

/** Sends a chat request and reads its stream. */
export async function sendChat({ tokenId, body, signal, onText }: ChatRequest): Promise<ChatResult> {
  const startedMs = performance.now()
  const response = await sendRequest({ path: CHAT_PATH, body: streamed(body), tokenId, signal })
  if (!response.body) throw new ApiError({ status: 502, code: 'upstream_error', message: '' })
  const requestId = response.headers.get('x-request-id') ?? ''
  let firstMs: number | undefined
  let finish: string | undefined
  let usage: Chunk['usage']
  for await (const line of dataLines(response.body)) {
    if (line === '[DONE]') break
    const chunk = JSON.parse(line) as Chunk
    if (chunk.error)
      throw new ApiError({
        status: 502,
        code: chunk.error.code ?? 'upstream_error',
        message: chunk.error.message ?? '',
        requestId,
      })
    const [choice] = chunk.choices ?? []
    const { content, reasoning_content: reasoning, tool_calls: calls } = choice?.delta ?? {}
    if (content || reasoning || calls) firstMs ??= performance.now() - startedMs
    if (calls) onText('tools', toolText(calls))
    if (reasoning) onText('reasoning', reasoning)
    if (content) onText('content', content)
    finish = choice?.finish_reason ?? finish
    usage = chunk.usage ?? usage
  }
  return {
    requestId,
    firstMs,
    totalMs: performance.now() - startedMs,
    finish,
    promptTokens: usage?.prompt_tokens,
    completionTokens: usage?.completion_tokens,
  }
}
