import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { SYSTEM } from '../../src/domain/actor.ts'
import { ROLE, type Role } from '../../src/domain/role.ts'
import { testPlace } from '../../src/identity/body-seal.ts'
import { createAccount } from '../../src/manage/people/users.ts'
import { insertSavedTest } from '../../src/store/records/saved-tests.ts'
import { insertSession } from '../../src/store/records/sessions.ts'
import { insertVideo } from '../../src/store/records/videos.ts'
import { insertPages } from '../../src/store/usage/bodies.ts'
import { insertLog, LOG_TYPE } from '../../src/store/usage/logs.ts'
import { type Gateway, ROOT_PASSWORD, ROOT_TOKEN } from './gateway.ts'
import { pageOf } from './kept-bodies.ts'

/** The callers and their credentials. The last three have access by their role, `sk-` by its kind. */
export const CALLERS = [
  'nobody',
  'an unknown access token',
  'an expired access token',
  'a revoked access token',
  "a disabled user's access token",
  "a deleted user's access token",
  'a session cookie from another site',
  'a deleted sk- token',
  "a disabled user's sk- token",
  'an sk- token',
  'User',
  'Admin',
  'Root',
] as const
export type Caller = (typeof CALLERS)[number]
export const MEMBERS = ['User', 'Admin', 'Root'] as const
export type Member = (typeof MEMBERS)[number]

export const isMember = (caller: Caller): caller is Member => MEMBERS.some(member => member === caller)

export type Kind =
  | 'token'
  | 'access token'
  | 'session'
  | 'user'
  | 'channel'
  | 'alias'
  | 'canary'
  | 'price'
  | 'doubt'
  | 'request'
  | 'body'
  | 'test'
  | 'video'
  | 'alert rule'
  | 'alert target'
  | 'delivery'
  | 'revision'
  | 'node'

export const UNKNOWN_ID = 900_000_000_001

/** A video job that failed and was not charged. */
export const newVideo = (fields: { readonly id: string; readonly user_id: number }) => ({
  ...fields,
  seq: 1,
  request_id: randomUUID(),
  token_id: 0,
  token_name: '',
  model: 'sora-2',
  sent_model: 'sora-2',
  channel_id: 1,
  channel_type: 1,
  access_sealed: '',
  kind: '',
  upstream_more: '[]',
  parameters: '{"prompt":"","n":1}',
  phase: 'ended' as const,
  status: 'failed' as const,
  progress: 0,
  states: '{}',
  seconds: '4',
  size: '',
  results: '[]',
  cost: 0,
  estimate: 0,
  price: '',
  created_time: 1,
  expires_time: 1,
  next_poll_ms: 0,
  polled_ms: 0,
  misses: 0,
  poll_error: '',
  lease_until_ms: 0,
  lease_by: '',
})

/** An unresolved charge, as a request that was cut off leaves it. */
export const newDoubt = (db: Gateway['db']) =>
  db
    .insertInto('suspense')
    .values({
      time: 1,
      request_id: randomUUID(),
      user_id: 1,
      token_id: 0,
      channel_id: 1,
      amount: 2_000,
      reason: 'cut',
    })
    .returning('id')
    .executeTakeFirstOrThrow()

/** The id of a request, derived from a number. */
export const requestIdOf = (number: number) => `req_${String(number).padStart(26, '0')}`

/** The id of a video job, derived from a number. */
export const videoIdOf = (number: number) => `video_${String(number).padStart(24, '0')}`

/** The id of a node, derived from a number. */
export const nodeIdOf = (number: number) =>
  number
    .toString(16)
    .padStart(12, '0')
    .replace(/(?=.{4}$)/, '-')

/** The users of the table, and their objects. */
export async function createCallers(gateway: Gateway) {
  const { db, operations } = gateway
  const now = () => Math.floor(Date.now() / 1000)
  let requests = 0

  /** Without the cost of a password hash: these users do not sign in. */
  async function account(role: Role) {
    const username = `person-${randomUUID()}`
    const { id } = await db.transaction().execute(trx =>
      createAccount(trx, {
        username,
        passwordHash: '',
        role,
        unlimited: false,
        quota: 0,
        author: SYSTEM,
        time: now(),
      }),
    )
    const { token } = await operations.accessToken({ username, name: 'test' })
    return { id, token }
  }

  const post = async (token: string, path: string, body: unknown) => {
    const reply = await gateway.api('POST', path, body, { token })
    assert.equal(reply.status, 200, reply.text)
    return reply.body.data
  }

  const user = await account(ROLE.user)
  const admin = await account(ROLE.admin)
  const other = await account(ROLE.user)
  const root = {
    id: (await gateway.api('GET', '/api/user/self')).body.data.id as number,
    token: ROOT_TOKEN,
  }
  const members: Readonly<Record<Member, { id: number; token: string }>> = {
    User: user,
    Admin: admin,
    Root: root,
  }

  const expired = await post(user.token, '/api/user/access_token/', { name: 'expired' })
  await db
    .updateTable('access_tokens')
    .set({ expired_time: now() - 1 })
    .where('id', '=', expired.id)
    .execute()
  const revoked = await post(user.token, '/api/user/access_token/', { name: 'revoked' })
  await gateway.api('DELETE', `/api/user/access_token/${revoked.id}`, undefined, { token: user.token })

  const disabled = await account(ROLE.user)
  const disabledKey = await post(disabled.token, '/api/token/', { name: 'of a disabled user' })
  await post(ROOT_TOKEN, '/api/user/manage', { id: disabled.id, action: 'disable' })
  const gone = await account(ROLE.admin)
  await gateway.api('DELETE', `/api/user/${gone.id}`)

  const key = await post(user.token, '/api/token/', { name: 'a living one' })
  const deletedKey = await post(user.token, '/api/token/', { name: 'a deleted one' })
  await gateway.api('DELETE', `/api/token/${deletedKey.id}`, undefined, { token: user.token })

  const signedIn = await gateway.api(
    'POST',
    '/api/user/login',
    { username: 'root', password: ROOT_PASSWORD },
    { token: null },
  )
  const cookie = signedIn.headers.getSetCookie()[0]?.split(';')[0] ?? ''
  assert.match(cookie, /^sluice_session=/)

  const bearer = (token: string) => ({ authorization: `Bearer ${token}` })
  const headersOf: Readonly<Record<Caller, Readonly<Record<string, string>>>> = {
    nobody: {},
    'an unknown access token': bearer('sat-nobody-ever-made-this-one'),
    'an expired access token': bearer(expired.token),
    'a revoked access token': bearer(revoked.token),
    "a disabled user's access token": bearer(disabled.token),
    "a deleted user's access token": bearer(gone.token),
    'a session cookie from another site': { cookie, 'sec-fetch-site': 'cross-site' },
    'a deleted sk- token': bearer(deletedKey.key),
    "a disabled user's sk- token": bearer(disabledKey.key),
    'an sk- token': bearer(key.key),
    User: bearer(user.token),
    Admin: bearer(admin.token),
    Root: bearer(root.token),
  }

  const ownerOf = (owner: string, caller: Caller) =>
    owner === 'own' && isMember(caller) ? members[caller] : other

  const newSession = (userId: number) =>
    db.transaction().execute(trx =>
      insertSession(trx, {
        user_id: userId,
        digest: randomUUID(),
        address: '127.0.0.1',
        user_agent: '',
        created_time: now(),
      }),
    )

  const USERS: Readonly<Record<string, Role>> = {
    'a User': ROLE.user,
    'an Admin': ROLE.admin,
    'a Root': ROLE.root,
  }
  const channel = {
    name: 'channel',
    type: 1,
    key: 'a provider key',
    base_url: 'http://127.0.0.1:9',
    models: ['gpt-4o'],
  }

  const newTarget = () =>
    post(ROOT_TOKEN, '/api/alert/target/', {
      name: randomUUID(),
      type: 'webhook',
      url: 'http://127.0.0.1:9/',
      enabled: false,
    })

  /** A new object of each kind, with the relation to the caller that the table names. */
  const MAKE: Readonly<Record<Kind, (owner: string, caller: Caller) => Promise<number>>> = {
    token: async (owner, caller) =>
      (await post(ownerOf(owner, caller).token, '/api/token/', { name: 'thing' })).id,
    'access token': async (owner, caller) =>
      (await post(ownerOf(owner, caller).token, '/api/user/access_token/', { name: 'thing' })).id,
    session: (owner, caller) => newSession(ownerOf(owner, caller).id),
    user: async (owner, caller) =>
      owner === 'themselves' && isMember(caller)
        ? members[caller].id
        : (await account(USERS[owner] ?? ROLE.user)).id,
    channel: async () => (await post(ROOT_TOKEN, '/api/channel/', { mode: 'single', channel })).id,
    alias: async () =>
      (await post(ROOT_TOKEN, '/api/alias/', { name: `alias-${randomUUID()}`, target: 'gpt-4o' })).id,
    canary: async () => {
      const model = `model-${randomUUID()}`
      return (await post(ROOT_TOKEN, '/api/canary/', { kind: 'price', model, changes: { input: 1 } })).id
    },
    price: async () =>
      (await post(ROOT_TOKEN, '/api/price/', { model: `model-${randomUUID()}`, input: 1 })).id,
    doubt: async () => (await newDoubt(db)).id,
    'alert rule': async () =>
      (await post(ROOT_TOKEN, '/api/alert/rule/', { name: randomUUID(), kind: 'channel_disabled' })).id,
    'alert target': async () => (await newTarget()).id,
    // Every store begins with this one.
    revision: async () => 1,
    delivery: async () => {
      const { id } = await db
        .insertInto('alert_deliveries')
        .values({
          target_id: (await newTarget()).id,
          status: 'dead',
          notices: '[]',
          omitted: 0,
          created_time: 1,
          attempts: 10,
          next_time: 1,
          claimed_until: 0,
          last_error: '',
        })
        .returning('id')
        .executeTakeFirstOrThrow()
      return id
    },
    node: async () => {
      const number = ++requests
      await db
        .insertInto('node_heartbeats')
        .values({
          node_id: nodeIdOf(number),
          machine: 'another machine',
          name: 'another',
          address: '',
          version: '',
          state: 'up',
          fence_ms: 1_000,
          beat_ms: 1,
          applied: 0,
          in_flight: 0,
        })
        .execute()
      return number
    },
    request: async (owner, caller) => {
      const number = ++requests
      await insertLog(db, {
        created_time: now(),
        type: LOG_TYPE.consume,
        user_id: ownerOf(owner, caller).id,
        request_id: requestIdOf(number),
      })
      return number
    },
    body: async (owner, caller) => {
      const number = ++requests
      const user_id = ownerOf(owner, caller).id
      // The retention job removes older ones.
      const page = pageOf(gateway.bodySeal, { user_id, created_time: now() }, [
        { request_id: requestIdOf(number) },
      ])
      await insertPages(gateway.store, [page])
      return number
    },
    test: async (owner, caller) => {
      const test = {
        user_id: ownerOf(owner, caller).id,
        name: 'a test',
        path: '/v1/chat/completions',
        model: 'gpt-4o',
        expectation: '{"kind":"contains","value":"x"}',
        created_time: 1,
      }
      const sealFor = (id: number) => gateway.bodySeal.seal(testPlace(id), Buffer.from('{}'))
      return (await db.transaction().execute(trx => insertSavedTest(trx, test, sealFor))).id
    },
    video: async (owner, caller) => {
      const number = ++requests
      await insertVideo(db, newVideo({ id: videoIdOf(number), user_id: ownerOf(owner, caller).id }))
      return number
    },
  }

  const ids = (rows: readonly { id: number }[]) => rows.map(row => row.id).sort()

  return {
    headersOf,
    members,
    /** One object of every kind that has an owner. */
    addContent: async (caller: Caller) => ({
      token: await MAKE.token('own', caller),
      accessToken: await MAKE['access token']('own', caller),
      session: await MAKE.session('own', caller),
    }),
    /** The rows of a user, read directly from the store. */
    idsOf: async (userId: number) => ({
      accessTokens: ids(
        await db.selectFrom('access_tokens').select('id').where('user_id', '=', userId).execute(),
      ),
      sessions: ids(
        await db
          .selectFrom('sessions')
          .select('id')
          .where('user_id', '=', userId)
          .where('ended_time', 'is', null)
          .execute(),
      ),
    }),
    make: async (kind: Kind, owner: string, caller: Caller) =>
      owner === 'unknown' ? UNKNOWN_ID : MAKE[kind](owner, caller),
    /** A disposable user of this role. */
    passing: async (member: Member) =>
      bearer((await account({ User: ROLE.user, Admin: ROLE.admin, Root: ROLE.root }[member])).token),
  }
}

export type Callers = Awaited<ReturnType<typeof createCallers>>
