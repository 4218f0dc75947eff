import { actorLabel } from '../../domain/actor.ts'
import { Refusal } from '../../domain/errors.ts'
import { ROLE } from '../../domain/role.ts'
import { codePoints, fold } from '../../domain/text.ts'
import { newSessionId } from '../../identity/credentials.ts'
import type { Requester } from '../../identity/hash-queue.ts'
import { SESSION_ABSOLUTE_S } from '../../identity/identify.ts'
import { isImportedHash } from '../../identity/imported-hash.ts'
import { networkOf } from '../../identity/network.ts'
import { signedIn } from '../../identity/passwords.ts'
import { mustBeAllowed } from '../../identity/throttle.ts'
import { endSessions, findSession, insertSession, signInAddresses } from '../../store/records/sessions.ts'
import { readSettings } from '../../store/records/settings.ts'
import { findUserByName, touchLogin, updateUser } from '../../store/records/users.ts'
import { PASSWORD_LENGTH, type signInContract } from '../contract/users.ts'
import type { Handlers, RouteCall } from '../server/call.ts'
import type { Deps } from '../server/deps.ts'
import { isSameOrigin, SESSION_COOKIE } from './session-cookie.ts'
import { createAccount, mustFindUser, mustHoldUser, presentSelf, presentUser } from './users.ts'

const MAX_USER_AGENT = 256
/** Registrations are throttled as attempts on this account. No user can have the name, because names are trimmed. */
const REGISTRATION = ' registration'

const wrongCredentials = () =>
  new Refusal('wrong_credentials', 'The username or password is wrong, or the user is disabled.')

/** Sign-in, sign-out and registration. They are throttled: only here can anonymous callers cause expensive work. */
export function createSignInHandlers(deps: Deps): Handlers<typeof signInContract> {
  const { db, now, passwords, throttle, digest, basePath } = deps
  const cookieOf = (isTls: boolean) =>
    ({ path: basePath === '' ? '/' : basePath, httpOnly: true, sameSite: 'strict', secure: isTls }) as const

  const logout = async ({ reply, isTls, change }: Pick<RouteCall, 'reply' | 'isTls' | 'change'>) => {
    const sessionId = reply.request.cookies[SESSION_COOKIE]
    // A link on another site must not sign a user out.
    if (!isSameOrigin(reply.request)) return undefined
    reply.clearCookie(SESSION_COOKIE, cookieOf(isTls))
    const session = sessionId === undefined ? undefined : await findSession(db, digest(sessionId))
    if (session)
      await change(async ({ trx, audit }) => {
        await endSessions(trx, session.user_id, now(), { only: session.id })
        const user = await mustFindUser(trx, session.user_id)
        audit({ action: 'user.logout', target: `user:${user.id}`, actor: user })
        return undefined
      })
    return undefined
  }

  /** A user who has signed in from this network before is not throttled together with unknown callers. */
  async function requesterOf(userId: number | undefined, address: string): Promise<Requester> {
    const network = networkOf(address)
    // An unknown name costs the same query, so that the response time does not reveal whether it exists.
    const addresses = await signInAddresses(db, userId ?? 0)
    const isKnown = userId !== undefined && addresses.some(address => networkOf(address) === network)
    return isKnown ? signedIn({ id: userId }) : { name: network, isKnown: false }
  }

  /** A hash of our own for an imported password; undefined if the password must be changed first, or is not imported. */
  async function replacementHash(
    user: { readonly id: number; readonly password_hash: string },
    password: string,
  ): Promise<string | undefined> {
    const length = codePoints(password)
    if (!isImportedHash(user.password_hash) || length < PASSWORD_LENGTH.min || length > PASSWORD_LENGTH.max)
      return undefined
    return passwords.hash(password, signedIn(user))
  }

  return {
    login: async ({ body, address, isTls, userAgent, reply, change }) => {
      const account = fold(body.username)
      await mustBeAllowed(throttle, account, address)
      const user = await findUserByName(db, body.username)
      const requester = await requesterOf(user?.id, address)
      const isRight = await passwords.verify(body.password, user?.password_hash, requester)
      if (!user || !isRight || user.status !== 1) {
        await change(async ({ audit }) => {
          // The attempted name is not recorded: people type passwords into the wrong field.
          audit({ action: 'user.login_failed', target: user ? `user:${user.id}` : 'user:unknown' })
          return undefined as never
        })
        throw wrongCredentials()
      }
      throttle.succeed(account, address)
      const passwordHash = await replacementHash(user, body.password)
      const sessionId = newSessionId()
      const response = await change(async ({ trx, audit }) => {
        // The password may have changed while this one was hashed; a session must not outlive that change.
        const current = await mustHoldUser(trx, user.id)
        if (current.password_hash !== user.password_hash || current.status !== 1) throw wrongCredentials()
        await insertSession(trx, {
          user_id: user.id,
          digest: digest(sessionId),
          address,
          user_agent: userAgent.slice(0, MAX_USER_AGENT),
          created_time: now(),
        })
        await touchLogin(trx, user.id, now())
        if (passwordHash !== undefined) await updateUser(trx, current, { password_hash: passwordHash })
        audit({ action: 'user.login', target: `user:${user.id}`, actor: user })
        return presentSelf(await mustFindUser(trx, user.id))
      })
      reply.setCookie(SESSION_COOKIE, sessionId, { ...cookieOf(isTls), maxAge: SESSION_ABSOLUTE_S })
      return response
    },

    register: async ({ body, address, change }) => {
      const { registration } = await readSettings(db)
      if (!registration)
        throw new Refusal('forbidden', 'Registration is disabled. Ask an administrator for an account.')
      // Counted as a failure even on success: one address may register a limited number of accounts per hour.
      await mustBeAllowed(throttle, REGISTRATION, address)
      const passwordHash = await passwords.hash(body.password, { name: networkOf(address), isKnown: false })
      return change(async ({ trx, audit }) => {
        const user = await createAccount(trx, {
          username: body.username,
          displayName: body.display_name,
          email: body.email,
          passwordHash,
          role: ROLE.user,
          unlimited: false,
          quota: 0,
          author: actorLabel({ id: 0 }),
          time: now(),
        })
        audit({ action: 'user.register', target: `user:${user.id}`, actor: user, after: presentUser(user) })
        return presentUser(user)
      })
    },

    logout: call => logout(call as never),
    logoutByLink: call => logout(call as never),
  }
}
