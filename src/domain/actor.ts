import type { Role } from './role.ts'

/** Who asks, by which credential, from where. Roles are read afresh for every request, never from the credential. */
export type Actor = {
  readonly id: number
  readonly username: string
  readonly role: Role
  /** How the caller proved who it is; `session` calls come from a browser. */
  readonly via: 'access_token' | 'session' | 'command'
  /** Of the access token or session. */
  readonly credentialId: number
  /** When the session began, in Unix seconds; undefined for other credentials. */
  readonly signInTime?: number
}

/** Entries and the audit log name their author in this form. */
export const actorLabel = (actor: Pick<Actor, 'id'>) => `user:${actor.id}`
export const SYSTEM = 'system'
