import type { Actor } from '../../domain/actor.ts'
import { notFound, Refusal } from '../../domain/errors.ts'
import { fold, mask } from '../../domain/text.ts'
import { NEVER } from '../../domain/token.ts'
import { newAccessToken } from '../../identity/credentials.ts'
import { SESSION_ABSOLUTE_S, SESSION_IDLE_S, unauthorized } from '../../identity/identify.ts'
import { signedIn } from '../../identity/passwords.ts'
import { mustBeAllowed } from '../../identity/throttle.ts'
import type { UserRow } from '../../store/engine/schema.ts'
import type { Trx } from '../../store/engine/store.ts'
import {
  deleteAccessToken,
  deleteAccessTokensNamed,
  insertAccessToken,
  isAccessTokenLive,
  listAccessTokens,
} from '../../store/records/access-tokens.ts'
import { endSessions, isSessionLive, listSessions } from '../../store/records/sessions.ts'
import { findUserByName, type UserChange, updateUser } from '../../store/records/users.ts'
import type { selfContract } from '../contract/users.ts'
import type { Handlers } from '../server/call.ts'
import type { Deps } from '../server/deps.ts'
import { markIfStale } from '../server/freshness.ts'
import { presentPage } from '../server/page.ts'
import { readExpiry } from './expiry.ts'
import { endCredentials, mustComeWithPassword } from './password-change.ts'
import { claimName, deleteAccount, mustFindUser, mustHoldUser, presentSelf, presentUser } from './users.ts'

/** The access token that `GET /api/user/token` creates and rotates. */
const DEFAULT_NAME = 'default'
const MAX_ACCESS_TOKENS = 1_000
const FRESH_SIGN_IN_S = 600

/** Routes of the own account (docs/reference/management-api.md: Own account). */
export function createSelfHandlers({
  db,
  engine,
  now,
  passwords,
  throttle,
  digest,
  ledger,
}: Deps): Handlers<typeof selfContract> {
  /**
   * Checks again, under a lock, that the credential is valid. A password change may have revoked it after the request was
   * authenticated, and a credential that the request creates would outlive the change.
   */
  async function mustStillBeSignedIn(trx: Trx, actor: Actor): Promise<void> {
    await mustHoldUser(trx, actor.id)
    const isLive =
      actor.via === 'session'
        ? await isSessionLive(trx, actor.credentialId)
        : await isAccessTokenLive(trx, actor.credentialId)
    if (!isLive) throw unauthorized('The credential is no longer valid. Sign in again.')
  }

  async function issue(trx: Trx, newToken: { user_id: number; name: string; expired_time: number }) {
    const token = newAccessToken()
    const created_time = now()
    const row = { ...newToken, digest: digest(token), hint: mask(token), created_time }
    const id = await insertAccessToken(trx, row)
    return { id, name: newToken.name, token, created_time, expired_time: newToken.expired_time }
  }

  /** A stolen session or access token must not allow guessing the password, so attempts are throttled. */
  async function mustKnowPassword(
    user: Pick<UserRow, 'id' | 'username' | 'password_hash'>,
    password: string | undefined,
    address: string,
  ): Promise<void> {
    const wrong = new Refusal('wrong_password', 'original_password is missing or wrong')
    if (password === undefined) throw wrong
    const account = fold(user.username)
    await mustBeAllowed(throttle, account, address)
    if (!(await passwords.verify(password, user.password_hash, signedIn(user)))) throw wrong
    throttle.succeed(account, address)
  }

  /** Attempts at a password are counted by name, so a user who is renamed again and again could guess without a limit. */
  async function mustMayRename(user: Pick<UserRow, 'id' | 'username'>, name: string, address: string) {
    // A taken name is refused later: looking for a free one is not counted.
    if (fold(name) === fold(user.username) || (await findUserByName(db, name))) return
    // Counted as a failure even on success. No user can have the name, because names are trimmed.
    await mustBeAllowed(throttle, ` rename of ${user.id}`, address)
  }

  /** Irreversible actions require a recent sign-in, so that an unattended browser cannot be used for them. */
  function mustHaveSignedInLately({ signInTime }: Actor): void {
    if (signInTime === undefined || now() - signInTime < FRESH_SIGN_IN_S) return
    throw new Refusal(
      'fresh_sign_in_required',
      'This requires a sign-in less than 10 minutes old. Sign in again with your password, then retry.',
    )
  }

  return {
    getSelf: async ({ actor, reply }) => {
      await markIfStale(reply, ledger.catchUp({ kind: 'user', ownerId: actor.id }))
      const user = await mustFindUser(db, actor.id)
      // An access token is no sign-in with the password.
      return actor.via === 'session' ? presentSelf(user) : presentUser(user)
    },

    updateSelf: async ({ actor, body, address, change }) => {
      mustComeWithPassword(body)
      const current = await mustFindUser(db, actor.id)
      if (body.username !== undefined) await mustMayRename(current, body.username, address)
      if (body.password !== undefined) await mustKnowPassword(current, body.original_password, address)
      const passwordHash =
        body.password === undefined ? undefined : await passwords.hash(body.password, signedIn(actor))
      return change(async ({ trx, audit }) => {
        const before = await mustHoldUser(trx, actor.id)
        const fields: UserChange = {}
        if (body.username !== undefined) fields.username = body.username
        if (body.display_name !== undefined) fields.display_name = body.display_name
        if (passwordHash !== undefined) fields.password_hash = passwordHash
        if (body.log_bodies !== undefined) fields.log_bodies = body.log_bodies
        await claimName(updateUser(trx, before, fields))
        if (passwordHash !== undefined)
          await endCredentials({ trx, audit }, { userId: actor.id, change: body, time: now() })
        const after = presentUser(await mustFindUser(trx, actor.id))
        const action = passwordHash === undefined ? 'user.update' : 'user.password'
        audit({ action, target: `user:${actor.id}`, before: presentUser(before), after })
        return after
      })
    },

    deleteSelf: async ({ actor, change }) => {
      mustHaveSignedInLately(actor)
      return change(async changing => {
        await deleteAccount(changing, await mustHoldUser(changing.trx, actor.id), { now, engine })
        return undefined
      })
    },

    listAccessTokens: async ({ actor, query: { paging } }) =>
      presentPage(await listAccessTokens(db, actor.id, paging), paging, row => ({
        id: row.id,
        name: row.name,
        token: row.hint,
        created_time: row.created_time,
        expired_time: row.expired_time,
        last_used_time: row.last_used_time,
      })),

    createAccessToken: async ({ actor, body, change }) =>
      change(async ({ trx, audit }) => {
        await mustStillBeSignedIn(trx, actor)
        const expiry = readExpiry(body.expired_time, now())
        const { total } = await listAccessTokens(trx, actor.id, { page: 1, pageSize: 1 })
        if (total >= MAX_ACCESS_TOKENS)
          throw new Refusal(
            'conflict',
            `A user may have at most ${MAX_ACCESS_TOKENS} access tokens. Revoke some first.`,
          )
        const issued = await issue(trx, { user_id: actor.id, name: body.name, expired_time: expiry })
        const { token: _secret, ...after } = issued
        audit({ action: 'access_token.create', target: `access_token:${issued.id}`, after })
        return issued
      }),

    deleteAccessToken: async ({ actor, params, change }) =>
      change(async ({ trx, audit }) => {
        const row = await deleteAccessToken(trx, actor.id, params.id)
        if (!row) throw notFound('access token')
        audit({ action: 'access_token.delete', target: `access_token:${row.id}`, before: { name: row.name } })
        return undefined
      }),

    rotateAccessToken: async ({ actor, change }) =>
      change(async ({ trx, audit }) => {
        await mustStillBeSignedIn(trx, actor)
        await deleteAccessTokensNamed(trx, actor.id, DEFAULT_NAME)
        const { id, token } = await issue(trx, {
          user_id: actor.id,
          name: DEFAULT_NAME,
          expired_time: NEVER,
        })
        audit({ action: 'access_token.rotate', target: `access_token:${id}`, after: { name: DEFAULT_NAME } })
        return token
      }),

    listSessions: async ({ actor }) => {
      const time = now()
      const rows = await listSessions(db, actor.id, {
        seen: time - SESSION_IDLE_S,
        created: time - SESSION_ABSOLUTE_S,
      })
      return rows.map(row => ({
        id: row.id,
        current: actor.via === 'session' && actor.credentialId === row.id,
        address: row.address,
        user_agent: row.user_agent,
        created_time: row.created_time,
        last_seen_time: row.last_seen_time,
        expires_time: Math.min(row.last_seen_time + SESSION_IDLE_S, row.created_time + SESSION_ABSOLUTE_S),
      }))
    },

    endSession: async ({ actor, params, change }) =>
      change(async ({ trx, audit }) => {
        if ((await endSessions(trx, actor.id, now(), { only: params.id })) === 0) throw notFound('session')
        audit({ action: 'session.end', target: `session:${params.id}` })
        return undefined
      }),

    endOtherSessions: async ({ actor, change }) =>
      change(async ({ trx, audit }) => {
        const which = actor.via === 'session' ? { except: actor.credentialId } : {}
        const count = await endSessions(trx, actor.id, now(), which)
        audit({ action: 'session.end_others', target: `user:${actor.id}`, after: { count } })
        return count
      }),
  }
}
