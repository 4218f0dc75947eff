import type { BodyMode } from '../../domain/body-log.ts'
import { Refusal } from '../../domain/errors.ts'
import type { Role } from '../../domain/role.ts'
import { isExpired } from '../../domain/token.ts'

type CallerLimits = {
  readonly rpm: number | null
  readonly tpm: number | null
  readonly concurrency: number | null
}

/** The token and user of a credential, reduced to the fields that the relay needs. */
export type Caller = {
  readonly tokenId: number
  readonly tokenName: string
  readonly userId: number
  readonly role: Role
  readonly isTokenEnabled: boolean
  readonly isUserEnabled: boolean
  readonly expiredTime: number
  /** Undefined: any model. */
  readonly models: ReadonlySet<string> | undefined
  readonly allowIps: readonly string[]
  readonly tokenLimits: CallerLimits
  readonly userLimits: CallerLimits
  /** The only channel for its requests; undefined: routing chooses one. */
  readonly channelId?: number | undefined
  /** Which bodies of its requests are kept. */
  readonly logBodies: BodyMode
}

type CallersDeps = {
  /** Reads token and user by the credential's digest. */
  find(credential: string): Promise<Caller | undefined>
}

const MAX_CALLERS = 50_000
const MAX_TRIES = 10

const refused = (message: string) => new Refusal('invalid_api_key', message)

/** Callers by credential, cached until they are invalidated. */
export function createCallers({ find }: CallersDeps) {
  const callers = new Map<string, Caller>()
  /** Counts invalidations. A caller that was read before an invalidation is neither cached nor admitted after it. */
  let edition = 0

  async function load(credential: string): Promise<Caller | undefined> {
    for (let tries = 0; tries < MAX_TRIES; tries++) {
      const before = edition
      const caller = await find(credential)
      if (before !== edition) continue
      if (!caller) return undefined
      callers.set(credential, caller)
      if (callers.size > MAX_CALLERS) {
        const [oldest] = callers.keys()
        if (oldest !== undefined) callers.delete(oldest)
      }
      return caller
    }
    return find(credential)
  }

  return {
    /** Synchronous for a cached caller. */
    find(credential: string): Caller | Promise<Caller | undefined> {
      return callers.get(credential) ?? load(credential)
    },
    /** Undefined also for a caller that exists and is not cached. */
    findCached: (credential: string): Caller | undefined => callers.get(credential),
    /** Whether the caller has not been invalidated since it was admitted. */
    isCurrent: (credential: string, caller: Caller) => callers.get(credential) === caller,
    forgetToken(id: number): void {
      edition += 1
      for (const [credential, caller] of callers) if (caller.tokenId === id) callers.delete(credential)
    },
    forgetAll(): void {
      edition += 1
      callers.clear()
    },
    forgetUser(id: number): void {
      edition += 1
      for (const [credential, caller] of callers) if (caller.userId === id) callers.delete(credential)
    },
  }
}

export type Callers = ReturnType<typeof createCallers>

/** Throws if a caller's credential is not valid (docs/reference/relay-api.md: Relay credentials). */
export function mustBeLive(caller: Caller | undefined, now: number): Caller {
  if (!caller) throw refused('The token is unknown or was deleted.')
  if (!caller.isTokenEnabled) throw refused('The token is disabled.')
  if (isExpired({ expired_time: caller.expiredTime }, now))
    throw refused('The token has expired. Create a new one or extend it.')
  if (!caller.isUserEnabled) throw refused('The user of the token is disabled.')
  return caller
}
