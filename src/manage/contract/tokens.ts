import { z } from 'zod'
import { MAX_UNITS } from '../../domain/money.ts'
import {
  group,
  id,
  idParams,
  ids,
  limits,
  limitsTold,
  nameList,
  optional,
  paged,
  pageOf,
  queryFlag,
  queryText,
  text,
} from './fields.ts'
import type { Contract } from './route.ts'

/** Fields of a token (docs/reference/management-api.md: Tokens). Absent fields keep their values. */
const tokenFields = {
  remain_quota: optional(z.int().min(0).max(MAX_UNITS)),
  expired_time: optional(z.int().min(-1).max(100_000_000_000)),
  unlimited_quota: optional(z.boolean()),
  model_limits_enabled: optional(z.boolean()),
  models: optional(nameList),
  model_limits: optional(nameList),
  allow_ips: optional(
    z.union([z.array(z.string()).max(1_000), text({ max: 50_000, lines: true })], {
      error: 'must be an array of addresses, or one text with commas or line breaks between',
    }),
  ),
  group,
  limits: optional(limits),
}

const name = text({ min: 1, max: 50 })

const tokenTold = z
  .object({
    id: z.int(),
    user_id: z.int(),
    name: z.string(),
    key: z.string().describe('Masked, except in the answer to the call that made the token'),
    status: z.int().describe('1 enabled, 2 disabled, 3 expired, 4 exhausted'),
    created_time: z.int(),
    accessed_time: z.int(),
    expired_time: z.int().describe('-1: never'),
    remain_quota: z.int(),
    used_quota: z.int(),
    held_quota: z.int(),
    unlimited_quota: z.boolean(),
    model_limits_enabled: z.boolean(),
    models: z.array(z.string()),
    model_limits: z.string(),
    allow_ips: z.array(z.string()),
    group: z.string(),
    limits: limitsTold,
  })
  .meta({ id: 'Token' })

export const tokenContract = {
  listTokens: {
    method: 'GET',
    path: '/api/token/',
    access: 'user',
    summary: 'List your tokens, newest first',
    query: paged({}),
    data: pageOf(tokenTold),
  },
  searchTokens: {
    method: 'GET',
    path: '/api/token/search',
    access: 'user',
    summary:
      'Find your tokens by a part of their name, by their whole value, or by what is told of it: `sk-ab12…wxyz`',
    query: paged({ keyword: queryText, token: queryText }),
    data: pageOf(tokenTold),
  },
  createToken: {
    method: 'POST',
    path: '/api/token/',
    access: 'user',
    summary: 'Make a token; the answer carries its whole value',
    body: z.object({ name, ...tokenFields }),
    data: tokenTold,
  },
  getToken: {
    method: 'GET',
    path: '/api/token/:id',
    access: 'user',
    summary: 'One of your tokens',
    params: idParams,
    data: tokenTold,
  },
  updateToken: {
    method: 'PUT',
    path: '/api/token/',
    access: 'user',
    summary: 'Change the fields given, keep the rest',
    query: z.object({ status_only: queryFlag }),
    body: z.object({ id, name: optional(name), status: optional(z.int().min(1).max(4)), ...tokenFields }),
    data: tokenTold,
  },
  deleteToken: {
    method: 'DELETE',
    path: '/api/token/:id',
    access: 'user',
    summary: 'Delete a token for good; it stops at once',
    params: idParams,
  },
  revealToken: {
    method: 'POST',
    path: '/api/token/:id/key',
    access: 'user',
    summary: 'The whole value of a token; audited',
    params: idParams,
    data: z.object({ key: z.string() }),
  },
  deleteTokens: {
    method: 'POST',
    path: '/api/token/batch',
    access: 'user',
    summary: 'Delete several of your tokens; the answer is how many',
    body: ids,
    data: z.int(),
  },
  revealTokens: {
    method: 'POST',
    path: '/api/token/batch/keys',
    access: 'user',
    summary: 'The whole values of several of your tokens, by id; audited',
    body: z.object({ ids: z.array(id).min(1).max(100) }),
    data: z.object({ keys: z.record(z.string(), z.string()) }),
  },
} as const satisfies Contract
