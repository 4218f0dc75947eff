import type { FastifyReply } from 'fastify'
import type { Actor } from '../../domain/actor.ts'
import type { Trx } from '../../store/engine/store.ts'
import type { Access, Answer, BodySchema, Contract, Params, Query, Route } from '../contract/route.ts'

/** An action and its target; `before` and `after` as the API presents them, without secrets. */
export type AuditNote = {
  /** `token.create`, `channel.update`, `user.login` … */
  readonly action: string
  /** `token:7`, `user:3` … */
  readonly target: string
  readonly before?: unknown
  readonly after?: unknown
  /** The actor of a sign-in, which has no credential yet. */
  readonly actor?: Pick<Actor, 'id' | 'username'>
}

type RoleAccess = Extract<Access, 'user' | 'admin' | 'root'>

/** The open transaction of a write, and the function that audits it. */
export type Changing = { readonly trx: Trx; audit(note: AuditNote): void }

/** One call of a route, as its handler sees it. */
export type RouteCall<R extends Route = Route> = {
  readonly params: Params<R>
  readonly query: Query<R>
  readonly body: BodySchema<R>
  /** The caller; undefined only on routes that accept callers without a management credential. */
  readonly actor: R['access'] extends RoleAccess ? Actor : Actor | undefined
  readonly authorization: string
  readonly address: string
  readonly isTls: boolean
  readonly requestId: string
  readonly userAgent: string
  readonly reply: FastifyReply
  /** Runs a write in one transaction: the change, its audit record, and the response stored for repeats. */
  change<T extends Answer<R>>(work: (changing: Changing) => Promise<T>): Promise<T>
}

export type Handlers<C extends Contract> = {
  readonly [name in keyof C]: (call: RouteCall<C[name]>) => Promise<Answer<C[name]>>
}
