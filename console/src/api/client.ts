import { routes } from 'virtual:routes'
import type { z } from 'zod'
import { basePath } from './base-path.ts'
import type { AnswerOf, ApiContract, RouteName } from './contract.ts'
import { ApiError, errorOf, foreignResponse, OFFLINE } from './errors.ts'
import { waitForSignIn } from './session.ts'

type Scalar = string | number | boolean | undefined
type FieldsOf<T> = T extends z.ZodType ? Exclude<keyof z.output<T>, 'paging'> : never
type QueryOf<Name extends RouteName> = ApiContract[Name] extends { query: infer Q }
  ? { readonly query?: Partial<Record<FieldsOf<Q> | 'p' | 'page_size', Scalar>> }
  : { readonly query?: never }
type BodyOf<Name extends RouteName> = ApiContract[Name] extends { body: infer B extends z.ZodType }
  ? { readonly body: z.input<B> }
  : { readonly body?: never }
type ParamsOf<Name extends RouteName> = ApiContract[Name] extends { params: infer P }
  ? { readonly params: Record<FieldsOf<P>, string | number> }
  : { readonly params?: never }

/** Query, body and path parameters of a route, derived from the contract. */
export type Input<Name extends RouteName> = QueryOf<Name> & BodyOf<Name> & ParamsOf<Name>

export type CallOptions = {
  readonly signal?: AbortSignal | undefined
  /** When false, a 401 response is thrown instead of opening the sign-in dialog. */
  readonly askSignIn?: boolean
  /** The gateway runs a write with the same key once, and repeats the first response for a retry. */
  readonly idempotencyKey?: string
}

type RouteInput = { readonly query?: object; readonly params?: object; readonly body?: unknown }

/** The URL of a route. Download links use it too. */
export function addressOf(name: RouteName, { query = {}, params = {} }: RouteInput): string {
  const path = routes[name].path.replace(/:(\w+)/g, (_whole, field: string) =>
    encodeURIComponent(String((params as Record<string, string>)[field])),
  )
  const filled = Object.entries(query).filter(([, value]) => value !== undefined && value !== '')
  const search = new URLSearchParams(filled.map(([key, value]) => [key, String(value)])).toString()
  return `${basePath}${path}${search && `?${search}`}`
}

async function send(
  name: RouteName,
  input: RouteInput,
  { signal, idempotencyKey }: CallOptions,
): Promise<Response> {
  try {
    return await fetch(addressOf(name, input), {
      method: routes[name].method,
      signal: signal ?? null,
      headers: {
        ...(input.body === undefined ? {} : { 'content-type': 'application/json' }),
        ...(idempotencyKey === undefined ? {} : { 'idempotency-key': idempotencyKey }),
      },
      ...(input.body === undefined ? {} : { body: JSON.stringify(input.body) }),
    })
  } catch (error) {
    if (signal?.aborted) throw error
    throw new ApiError({ status: 0, code: OFFLINE, message: (error as Error).message })
  }
}

/**
 * Calls a route of the contract. When the session has expired, waits for the sign-in dialog and repeats the
 * call.
 */
export async function call<Name extends RouteName>(
  name: Name,
  input: Input<Name>,
  options: CallOptions = {},
): Promise<AnswerOf<Name>> {
  const { askSignIn = true } = options
  for (;;) {
    const response = await send(name, input as RouteInput, options)
    if (response.status === 401 && askSignIn) {
      await waitForSignIn()
      continue
    }
    if (!response.ok) throw await errorOf(response)
    const answer = await response.json().catch((error: unknown) => {
      throw options.signal?.aborted ? error : foreignResponse(response)
    })
    return routes[name].isWhole ? answer : answer.data
  }
}
