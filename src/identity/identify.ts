import type { Actor } from '../domain/actor.ts'
import { Refusal } from '../domain/errors.ts'
import type { Role } from '../domain/role.ts'
import { type Digest, isApiKey } from './credentials.ts'
import { isImportedHash } from './imported-hash.ts'

export const SESSION_IDLE_S = 12 * 3600
export const SESSION_ABSOLUTE_S = 7 * 24 * 3600
/** The time of last use is written at most this often, so that reads rarely cause writes. */
const TOUCH_EVERY_S = 60
/** The longest that a request waits for that write: a read-only store must not block authentication. */
const TOUCH_MOST_MS = 500

type IdentifiedUser = {
  readonly id: number
  readonly username: string
  readonly role: number
  readonly status: number
  readonly password_hash: string
}
type AccessToken = { id: number; user_id: number; expired_time: number; last_used_time: number }
type Session = { id: number; user_id: number; created_time: number; last_seen_time: number }

type IdentityStore = {
  findUser(id: number): Promise<IdentifiedUser | undefined>
  findAccessToken(digest: string): Promise<AccessToken | undefined>
  findSession(digest: string): Promise<Session | undefined>
  touchAccessToken(id: number, time: number): Promise<void>
  touchSession(id: number, time: number): Promise<void>
}

/** The message names the header to send, and `New-Api-User`, which clients of new-api look for to recognize the server. */
export const unauthorized = (why: string) =>
  new Refusal(
    'unauthorized',
    `${why} Send a system access token in the header Authorization: Bearer sat-… (New-Api-User is not needed).`,
  )

/** The value of an `Authorization` header, with or without its scheme. */
export const bearerOf = (header: string) => header.replace(/^bearer\s+/i, '').trim()

/** Identifies callers of the management API. Every look-up reads the store, so a change applies from the next request. */
export function createIdentify({
  store,
  digest,
  now,
  onUntouched: onTouchFailure,
}: {
  store: IdentityStore
  digest: Digest
  now: () => number
  onUntouched: (error: Error) => void
}) {
  /** Credentials whose time of last use is being written. */
  const touching = new Set<string>()

  async function touch(name: string, write: () => Promise<void>): Promise<void> {
    if (touching.has(name)) return
    touching.add(name)
    const { promise: late, resolve } = Promise.withResolvers<void>()
    const timer = setTimeout(resolve, TOUCH_MOST_MS)
    const writing = write()
      .catch(onTouchFailure)
      .finally(() => touching.delete(name))
    await Promise.race([writing, late])
    clearTimeout(timer)
  }

  async function actorOf(userId: number, via: Actor['via'], credentialId: number): Promise<Actor> {
    const user = await store.findUser(userId)
    if (!user) throw unauthorized('The user of this credential was deleted.')
    if (user.status !== 1) throw unauthorized('The user of this credential is disabled.')
    const actor = { id: user.id, username: user.username, role: user.role as Role, via, credentialId }
    // A sign-in replaces an imported hash, unless the password breaks the rule for new ones.
    return via === 'session' && isImportedHash(user.password_hash)
      ? { ...actor, mustChangePassword: true }
      : actor
  }

  return {
    async byAccessToken(header: string): Promise<Actor> {
      const value = bearerOf(header)
      if (value === '') throw unauthorized('The credential is empty.')
      if (isApiKey(value)) throw unauthorized('An sk- token is for the relay API and is not accepted here.')
      const accessToken = await store.findAccessToken(digest(value))
      if (!accessToken) throw unauthorized('The system access token is unknown or was revoked.')
      const time = now()
      if (accessToken.expired_time !== -1 && accessToken.expired_time <= time)
        throw unauthorized('The system access token has expired.')
      const actor = await actorOf(accessToken.user_id, 'access_token', accessToken.id)
      if (time - accessToken.last_used_time >= TOUCH_EVERY_S)
        await touch(`access token ${accessToken.id}`, () => store.touchAccessToken(accessToken.id, time))
      return actor
    },

    async bySession(sessionId: string): Promise<Actor> {
      const session = await store.findSession(digest(sessionId))
      const time = now()
      const hasEnded =
        !session ||
        time - session.last_seen_time > SESSION_IDLE_S ||
        time - session.created_time > SESSION_ABSOLUTE_S
      if (hasEnded) throw unauthorized('The session has ended. Sign in again.')
      const actor = await actorOf(session.user_id, 'session', session.id)
      if (time - session.last_seen_time >= TOUCH_EVERY_S)
        await touch(`session ${session.id}`, () => store.touchSession(session.id, time))
      return { ...actor, signInTime: session.created_time }
    },
  }
}

export type Identify = ReturnType<typeof createIdentify>
