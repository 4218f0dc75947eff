import { addressOf } from '../../api/client.ts'
import { ApiError, errorOf, OFFLINE } from '../../api/errors.ts'
import { waitForSignIn } from '../../api/session.ts'

export type PlaygroundCall = {
  /** Where on the relay, such as `/v1/rerank`. */
  readonly path: string
  readonly body: Readonly<Record<string, unknown>>
  /** Goes along in a form. */
  readonly file?: File | undefined
  /** The token whose limits apply and that pays as well; undefined for oneself. */
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

/** Asks the relay as the person who is signed in: no key ever reaches the browser. */
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
    // Ours, not the relay's: the session has ended, and the question waits for the next one.
    if (error.code !== 'unauthorized') throw error
    await waitForSignIn()
  }
}
