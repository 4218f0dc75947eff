import { z } from 'zod'
import { BODY_MODES } from '../../domain/body-log.ts'
import { MAX_UNITS } from '../../domain/money.ts'
import {
  group,
  id,
  idParams,
  limits,
  limitsView,
  optional,
  paged,
  pageOf,
  queryNumber,
  queryText,
  text,
} from './fields.ts'
import type { Contract } from './route.ts'

/** Invisible characters make one name look like another, in lists and in the audit log. */
const INVISIBLE = /[\p{Default_Ignorable_Code_Point}\p{Bidi_Control}\p{Cf}]/u
const username = text({ min: 1, max: 64 })
  .refine(value => !/\s/u.test(value), 'must not contain spaces')
  .refine(value => !INVISIBLE.test(value), 'must not contain invisible characters')
const displayName = text({ max: 64 })
const email = text({ max: 254 })
/** In code points. */
export const PASSWORD_LENGTH = { min: 8, max: 128 } as const
/** Not trimmed: a space is a character of a password. */
const password = z
  .string()
  .max(1024)
  .refine(value => value.isWellFormed(), 'is not well-formed Unicode')
  .refine(value => {
    const { length } = [...value]
    return length >= PASSWORD_LENGTH.min && length <= PASSWORD_LENGTH.max
  }, `must have ${PASSWORD_LENGTH.min} to ${PASSWORD_LENGTH.max} characters`)
/** An empty text changes nothing: existing clients send fields that were not filled in. */
const emptyAsAbsent = <T extends z.ZodType>(schema: T) =>
  z.preprocess(value => (value === '' || value === null ? undefined : value), schema.optional())

const revokeAccessTokens = optional(z.boolean()).describe(
  'With a new password: revoke every system access token of the user as well; false by default',
)

const role = z.union([z.literal(1), z.literal(10), z.literal(100)], {
  error: 'must be 1 (User), 10 (Admin) or 100 (Root)',
})
const status = z.union([z.literal(1), z.literal(2)], { error: 'must be 1 (enabled) or 2 (disabled)' })
const logBodies = optional(z.enum(BODY_MODES))
const quota = z.int().min(0).max(MAX_UNITS)

const userView = z
  .object({
    id: z.int(),
    username: z.string(),
    display_name: z.string(),
    role: z.int().describe('1 User, 10 Admin, 100 Root'),
    status: z.int().describe('1 enabled, 2 disabled'),
    email: z.string(),
    group: z.string(),
    quota: z.int().describe('Remaining quota, in units'),
    unlimited_quota: z.boolean(),
    used_quota: z.int(),
    held_quota: z.int(),
    request_count: z.int(),
    created_time: z.int(),
    last_login_time: z.int(),
    limits: limitsView,
    log_bodies: z.enum(BODY_MODES).describe('Which bodies of the user’s requests are kept'),
  })
  .meta({ id: 'User' })

const selfView = userView.extend({
  password_change_required: z
    .boolean()
    .optional()
    .describe(
      'This session may only change the password, because the imported one breaks the rule for passwords',
    ),
})

const accessTokenView = z
  .object({
    id: z.int(),
    name: z.string(),
    token: z.string().describe('Masked; the whole value is only in the response that creates it'),
    created_time: z.int(),
    expired_time: z.int(),
    last_used_time: z.int(),
  })
  .meta({ id: 'AccessToken' })

const sessionView = z
  .object({
    id: z.int(),
    current: z.boolean(),
    address: z.string(),
    user_agent: z.string(),
    created_time: z.int(),
    last_seen_time: z.int(),
    expires_time: z.int(),
  })
  .meta({ id: 'Session' })

const userFilters = {
  keyword: queryText,
  group: queryText,
  role: queryNumber,
  status: queryNumber,
  quota_below: queryNumber
    .pipe(z.int().min(0).max(MAX_UNITS).optional())
    .describe('Users with fewer units left; excludes unlimited users'),
}

export const selfContract = {
  getSelf: {
    method: 'GET',
    path: '/api/user/self',
    access: 'user',
    summary: 'Your own account',
    data: selfView,
  },
  updateSelf: {
    method: 'PUT',
    path: '/api/user/self',
    access: 'user',
    summary:
      'Change your names, password or log_bodies; a new password ends every session, and access tokens with revoke_access_tokens',
    body: z.object({
      username: emptyAsAbsent(username),
      display_name: emptyAsAbsent(displayName),
      password: emptyAsAbsent(password),
      original_password: emptyAsAbsent(z.string().max(1024)),
      revoke_access_tokens: revokeAccessTokens,
      log_bodies: logBodies,
    }),
    data: userView,
  },
  deleteSelf: {
    method: 'DELETE',
    path: '/api/user/self',
    access: 'user',
    summary:
      'Delete your own account; its tokens stop working immediately. A session requires a sign-in less than 10 minutes old (403 fresh_sign_in_required)',
  },
  listAccessTokens: {
    method: 'GET',
    path: '/api/user/access_token/',
    access: 'user',
    summary: 'Your system access tokens',
    query: paged({}),
    data: pageOf(accessTokenView),
  },
  createAccessToken: {
    method: 'POST',
    path: '/api/user/access_token/',
    access: 'user',
    summary: 'Create a system access token; its value is only in this response',
    body: z.object({
      name: text({ min: 1, max: 50 }),
      expired_time: optional(z.int().min(-1).max(100_000_000_000)),
    }),
    data: z.object({
      id: z.int(),
      name: z.string(),
      token: z.string(),
      created_time: z.int(),
      expired_time: z.int(),
    }),
  },
  deleteAccessToken: {
    method: 'DELETE',
    path: '/api/user/access_token/:id',
    access: 'user',
    summary: 'Revoke one of your system access tokens',
    params: idParams,
  },
  rotateAccessToken: {
    method: 'GET',
    path: '/api/user/token',
    access: 'user',
    summary: 'Create or rotate the system access token named "default", for existing clients',
    data: z.string(),
  },
  listSessions: {
    method: 'GET',
    path: '/api/user/sessions',
    access: 'user',
    summary: 'Your active sessions',
    data: z.array(sessionView),
  },
  endSession: {
    method: 'DELETE',
    path: '/api/user/sessions/:id',
    access: 'user',
    summary: 'Sign out one of your sessions',
    params: idParams,
  },
  endOtherSessions: {
    method: 'POST',
    path: '/api/user/sessions/revoke-others',
    access: 'user',
    summary: 'Sign out all other sessions; returns their number',
    data: z.int(),
  },
} as const satisfies Contract

export const signInContract = {
  login: {
    method: 'POST',
    path: '/api/user/login',
    access: 'public',
    refusesOtherSites: true,
    summary:
      'Sign in; sets the session cookie. Refuses forms, and pages of other sites (403 cross_site_refused)',
    body: z.object({ username: text({ min: 1, max: 256 }), password: z.string().min(1).max(1024) }),
    data: selfView,
  },
  register: {
    method: 'POST',
    path: '/api/user/register',
    access: 'public',
    refusesOtherSites: true,
    summary: 'Create an account, if the setting `registration` allows it',
    body: z.object({
      username,
      password,
      display_name: emptyAsAbsent(displayName),
      email: emptyAsAbsent(email),
    }),
    data: userView,
  },
  logout: { method: 'POST', path: '/api/user/logout', access: 'public', summary: 'Sign out' },
  logoutByLink: {
    method: 'GET',
    path: '/api/user/logout',
    access: 'public',
    summary: 'Sign out; existing clients use GET',
  },
} as const satisfies Contract

export const userContract = {
  listUsers: {
    method: 'GET',
    path: '/api/user/',
    access: 'admin',
    summary: 'List users, newest first',
    query: paged(userFilters),
    data: pageOf(userView),
  },
  searchUsers: {
    method: 'GET',
    path: '/api/user/search',
    access: 'admin',
    summary: 'Find users by id or by part of their names or email address',
    query: paged(userFilters),
    data: pageOf(userView),
  },
  getUser: {
    method: 'GET',
    path: '/api/user/:id',
    access: 'admin',
    summary: 'One user',
    params: idParams,
    data: userView,
  },
  createUser: {
    method: 'POST',
    path: '/api/user/',
    access: 'admin',
    summary: 'Create a user with a role below your own',
    body: z.object({
      username,
      password,
      display_name: emptyAsAbsent(displayName),
      email: emptyAsAbsent(email),
      role: optional(role),
      quota: optional(quota),
      unlimited_quota: optional(z.boolean()),
      group,
      limits: optional(limits),
    }),
    data: userView,
  },
  updateUser: {
    method: 'PUT',
    path: '/api/user/',
    access: 'admin',
    summary: 'Change only the fields sent',
    body: z.object({
      id,
      username: emptyAsAbsent(username),
      display_name: emptyAsAbsent(displayName),
      email: optional(email),
      password: emptyAsAbsent(password),
      revoke_access_tokens: revokeAccessTokens,
      role: optional(role),
      status: optional(status),
      quota: optional(quota),
      unlimited_quota: optional(z.boolean()),
      group,
      limits: optional(limits),
      log_bodies: logBodies.describe('Only Root can change it'),
    }),
    data: userView,
  },
  deleteUser: {
    method: 'DELETE',
    path: '/api/user/:id',
    access: 'admin',
    summary: 'Delete a user; its tokens stop working immediately, its ledger entries stay',
    params: idParams,
  },
  manageUser: {
    method: 'POST',
    path: '/api/user/manage',
    access: 'admin',
    summary: 'Enable, disable, promote, demote a user, or change its quota',
    body: z.object({
      id,
      action: z.enum(['enable', 'disable', 'promote', 'demote', 'add_quota', 'delete']),
      value: optional(z.int().min(-MAX_UNITS).max(MAX_UNITS)),
      mode: optional(z.enum(['add', 'subtract', 'override'])),
      reason: optional(text({ max: 200 })),
    }),
    data: userView.nullable(),
  },
} as const satisfies Contract
