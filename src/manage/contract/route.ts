import { z } from 'zod'

/**
 * Who may call a route. `user`, `admin` and `root` take a system access token or the console's session;
 * `key` takes an `sk-` token; `any` takes either.
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
  /** What `data` holds in the answer's envelope. */
  readonly data?: z.ZodType
  /** The whole answer, where it is not the envelope. */
  readonly reply?: z.ZodType
  /** Errors have the relay's shape (docs/reference/errors.md: Relay errors). */
  readonly relayErrors?: boolean
  /** Guarded here and read by the relay: the body stays as it comes, and the answer is the relay's. */
  readonly isRelayed?: boolean
  /** Signs a browser in, so a page of another site must not be able to send it (login CSRF). */
  readonly refusesOtherSites?: boolean
  /** A GET that changes something is audited and checked like a write. */
  readonly note?: string
}

export type Contract = Readonly<Record<string, Route>>

/** Whether a route has a query parameter of its own that is called `key`. */
export const hasKeyParameter = ({ query }: Pick<Route, 'query'>): boolean =>
  query instanceof z.ZodObject && Object.hasOwn(query.shape, 'key')

type Parsed<T> = T extends z.ZodType ? z.output<T> : undefined
type Told<T> = T extends z.ZodType ? z.input<T> : undefined

export type Params<R extends Route> = Parsed<R['params']>
export type Query<R extends Route> = Parsed<R['query']>
export type BodySchema<R extends Route> = Parsed<R['body']>
/** What a handler hands back: the envelope's `data`, or the whole answer where the route has a `reply`. */
export type Answer<R extends Route> = R['reply'] extends z.ZodType ? Told<R['reply']> : Told<R['data']>
