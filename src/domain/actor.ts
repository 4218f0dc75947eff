import type { Role } from './role.ts'

/** The caller of a management request and its credential. Its role is read from the store for every request. */
export type Actor = {
  readonly id: number
  readonly username: string
  readonly role: Role
  /** How the caller authenticated; `session` calls come from a browser. */
  readonly via: 'access_token' | 'session' | 'command'
  /** The id of the access token or session. */
  readonly credentialId: number
  /** When the session began, in Unix seconds; undefined for other credentials. */
  readonly signInTime?: number
  /** Signed in with an imported password that is too short or too long, and may only change it. */
  readonly mustChangePassword?: true
}

/** The author of ledger entries and audit records. */
export const actorLabel = (actor: Pick<Actor, 'id'>) => `user:${actor.id}`
export const SYSTEM = 'system'
