import { addressOf } from '../../api/client.ts'
import { ApiError, errorOf, OFFLINE } from '../../api/errors.ts'
import { waitForSignIn } from '../../api/session.ts'

export type PlaygroundCall = {
  /** Path of the API, such as `/v1/rerank`. */
  readonly path: string
  readonly body: Readonly<Record<string, unknown>>
  /** A file to upload; the request is multipart then. */
  readonly file?: File | undefined
  /** The token that the request is billed to; undefined for the user's account. */
  readonly tokenId: number | undefined
  readonly signal?: AbortSignal | undefined
}

function formOf(body: PlaygroundCall['body'], file: File): FormData {
  const form = new FormData()
  for (const [name, value] of Object.entries(body))
    for (const each of [value].flat()) form.append(Array.isArray(value) ? `${name}[]` : name, String(each))
  form.append('file', file)
  return form
}

/** Sends a request with the user's session, so that no API key reaches the browser. */
export async function sendRequest({ path, body, file, tokenId, signal }: PlaygroundCall): Promise<Response> {
  const address = addressOf('playground', { query: { token_id: tokenId } }).replace('/v1/*', path)
  for (;;) {
    const response = await fetch(address, {
      method: 'POST',
      signal: signal ?? null,
      ...(file
        ? { body: formOf(body, file) }
        : { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
    }).catch(error => {
      if (signal?.aborted) throw error
      throw new ApiError({ status: 0, code: OFFLINE, message: (error as Error).message })
    })
    if (response.ok) return response
    const error = await errorOf(response)
    // The console's session expired: sign in and repeat the request.
    if (error.code !== 'unauthorized') throw error
    await waitForSignIn()
  }
}
