import type { z } from 'zod'

/**
 * Who may call a route. `user`, `admin` and `root` accept a system access token or the console's session;
 * `key` accepts an `sk-` token; `any` accepts both.
 */
export type Access = 'public' | 'user' | 'admin' | 'root' | 'key' | 'any'

/** A route of the management API, as data: the only source for validation, types and the API document. */
export type Route = {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE'
  readonly path: string
  readonly access: Access
  readonly summary: string
  readonly params?: z.ZodType
  readonly query?: z.ZodType
  readonly body?: z.ZodType
  /** The schema of `data` in the response envelope. */
  readonly data?: z.ZodType
  /** The schema of the whole response, if it is not the envelope. */
  readonly reply?: z.ZodType
  /** Errors have the relay's shape (docs/reference/errors.md: Relay errors). */
  readonly relayErrors?: boolean
  /** Authorized here and handled by the relay: the body is not parsed, and the relay writes the response. */
  readonly isRelayed?: boolean
  /** Signs a browser in, so a page of another site must not be able to send it (login CSRF). */
  readonly refusesOtherSites?: boolean
  /** A GET that changes something is audited and checked like a write. */
  readonly note?: string
}

export type Contract = Readonly<Record<string, Route>>

/** Whether a route has its own query parameter `key`. */
export const hasKeyParameter = ({ query }: Pick<Route, 'query'>): boolean =>
  query !== undefined && 'shape' in query && Object.hasOwn(query.shape as object, 'key')

type Parsed<T> = T extends z.ZodType ? z.output<T> : undefined
type Output<T> = T extends z.ZodType ? z.input<T> : undefined

export type Params<R extends Route> = Parsed<R['params']>
export type Query<R extends Route> = Parsed<R['query']>
export type BodySchema<R extends Route> = Parsed<R['body']>
/** The result of a handler: the envelope's `data`, or the whole response if the route has a `reply`. */
export type Answer<R extends Route> = R['reply'] extends z.ZodType ? Output<R['reply']> : Output<R['data']>
