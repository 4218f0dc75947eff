import type { Actor } from '../domain/actor.ts'
import { Refusal } from '../domain/errors.ts'
import type { Role } from '../domain/role.ts'
import { type Digest, isApiKey } from './credentials.ts'

export const SESSION_IDLE_S = 12 * 3600
export const SESSION_ABSOLUTE_S = 7 * 24 * 3600
/** Last use is written down at most this often: reading must not turn into writing. */
const TOUCH_EVERY_S = 60
/** So long a request waits until that is written: a store that can be read and not written must not keep people out. */
const TOUCH_MOST_MS = 500

type Known = {
  readonly id: number
  readonly username: string
  readonly role: number
  readonly status: number
}
type AccessToken = { id: number; user_id: number; expired_time: number; last_used_time: number }
type Session = { id: number; user_id: number; created_time: number; last_seen_time: number }

export type IdentityStore = {
  findUser(id: number): Promise<Known | undefined>
  findAccessToken(digest: string): Promise<AccessToken | undefined>
  findSession(digest: string): Promise<Session | undefined>
  touchAccessToken(id: number, time: number): Promise<void>
  touchSession(id: number, time: number): Promise<void>
}

/** Names the header to send, and the one that clients of this family look for to know what they talk to. */
export const unauthorized = (why: string) =>
  new Refusal(
    'unauthorized',
    `${why}; send a system access token in the header Authorization: Bearer … (New-Api-User is not needed)`,
  )

/** The value of an `Authorization` header, with or without its scheme. */
export const bearerOf = (header: string) => header.replace(/^bearer\s+/i, '').trim()

/** Who is calling the management API. Every look-up reads the store, so a change counts from the next request on. */
export function createIdentify({
  store,
  digest,
  now,
  onUntouched,
}: {
  store: IdentityStore
  digest: Digest
  now: () => number
  onUntouched: (error: Error) => void
}) {
  /** Credentials whose last use is being written down. */
  const touching = new Set<string>()

  async function touch(name: string, write: () => Promise<void>): Promise<void> {
    if (touching.has(name)) return
    touching.add(name)
    const { promise: late, resolve } = Promise.withResolvers<void>()
    const timer = setTimeout(resolve, TOUCH_MOST_MS)
    const written = write()
      .catch(onUntouched)
      .finally(() => touching.delete(name))
    await Promise.race([written, late])
    clearTimeout(timer)
  }

  async function actorOf(userId: number, via: Actor['via'], credentialId: number): Promise<Actor> {
    const user = await store.findUser(userId)
    if (!user) throw unauthorized('the user of this credential is gone')
    if (user.status !== 1) throw unauthorized('the user of this credential is disabled')
    return { id: user.id, username: user.username, role: user.role as Role, via, credentialId }
  }

  return {
    async byAccessToken(header: string): Promise<Actor> {
      const value = bearerOf(header)
      if (value === '') throw unauthorized('the credential is empty')
      if (isApiKey(value)) throw unauthorized('an sk- token is for the relay API and is not accepted here')
      const found = await store.findAccessToken(digest(value))
      if (!found) throw unauthorized('the system access token is unknown or was revoked')
      const time = now()
      if (found.expired_time !== -1 && found.expired_time <= time)
        throw unauthorized('the system access token has expired')
      const actor = await actorOf(found.user_id, 'access_token', found.id)
      if (time - found.last_used_time >= TOUCH_EVERY_S)
        await touch(`access token ${found.id}`, () => store.touchAccessToken(found.id, time))
      return actor
    },

    async bySession(sessionId: string): Promise<Actor> {
      const found = await store.findSession(digest(sessionId))
      const time = now()
      const isOver =
        !found ||
        time - found.last_seen_time > SESSION_IDLE_S ||
        time - found.created_time > SESSION_ABSOLUTE_S
      if (isOver) throw unauthorized('the session has ended; sign in again')
      const actor = await actorOf(found.user_id, 'session', found.id)
      if (time - found.last_seen_time >= TOUCH_EVERY_S)
        await touch(`session ${found.id}`, () => store.touchSession(found.id, time))
      return { ...actor, signInTime: found.created_time }
    },
  }
}

export type Identify = ReturnType<typeof createIdentify>
