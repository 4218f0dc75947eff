import { basePath } from '../../api/base-path.ts'
import { ApiError, errorOf, OFFLINE } from '../../api/errors.ts'

export type Message = { readonly role: 'system' | 'user' | 'assistant'; readonly content: string }

type Asking = {
  readonly apiKey: string
  readonly body: {
    readonly model: string
    readonly messages: readonly Message[]
    readonly temperature?: number
    readonly max_tokens?: number
  }
  readonly signal?: AbortSignal
  /** A piece of the answer, as it arrives. */
  readonly onText: (kind: 'content' | 'reasoning', text: string) => void
}

export type Asked = {
  readonly requestId: string
  readonly firstMs: number | undefined
  readonly totalMs: number
  readonly finish: string | undefined
  readonly promptTokens: number | undefined
  readonly completionTokens: number | undefined
}

type Chunk = {
  readonly choices?: readonly {
    readonly delta?: { readonly content?: string | null; readonly reasoning_content?: string | null }
    readonly finish_reason?: string | null
  }[]
  readonly usage?: { readonly prompt_tokens?: number; readonly completion_tokens?: number } | null
  readonly error?: { readonly message?: string; readonly code?: string | null }
}

/** Lines of a server-sent stream, whole, whatever the chunks. */
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

/** Asks the gateway as an application would: over `/v1`, with a token. */
export async function askChat({ apiKey, body, signal, onText }: Asking): Promise<Asked> {
  const startedMs = performance.now()
  const response = await fetch(`${basePath}/v1/chat/completions`, {
    method: 'POST',
    signal: signal ?? null,
    headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' },
    body: JSON.stringify({ ...body, stream: true, stream_options: { include_usage: true } }),
  }).catch(error => {
    if (signal?.aborted) throw error
    throw new ApiError({ status: 0, code: OFFLINE, message: (error as Error).message })
  })
  if (!response.ok || !response.body) throw await errorOf(response)
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
    const { content, reasoning_content: reasoning } = choice?.delta ?? {}
    if (content || reasoning) firstMs ??= performance.now() - startedMs
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
