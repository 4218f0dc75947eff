import { z } from 'zod'
import { BODY_MODES } from '../../domain/body-log.ts'
import { MAX_UNITS } from '../../domain/money.ts'
import {
  group,
  id,
  idParams,
  ids,
  limits,
  limitsView,
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
      error: 'must be an array of addresses, or one string separated by commas or line breaks',
    }),
  ),
  group,
  limits: optional(limits),
  log_bodies: optional(z.enum(BODY_MODES)).describe('Which bodies are kept'),
}

const name = text({ min: 1, max: 50 })

const tokenView = z
  .object({
    id: z.int(),
    user_id: z.int(),
    name: z.string(),
    key: z.string().describe('Masked, except in the response that creates the token'),
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
    limits: limitsView,
    log_bodies: z.enum(BODY_MODES).describe('Which bodies are kept'),
  })
  .meta({ id: 'Token' })

export const tokenContract = {
  listTokens: {
    method: 'GET',
    path: '/api/token/',
    access: 'user',
    summary: 'List your tokens, newest first',
    query: paged({}),
    data: pageOf(tokenView),
  },
  searchTokens: {
    method: 'GET',
    path: '/api/token/search',
    access: 'user',
    summary:
      'Find your tokens by part of the name, by the whole value, or by the masked value `sk-ab12…wxyz`',
    query: paged({ keyword: queryText, token: queryText }),
    data: pageOf(tokenView),
  },
  createToken: {
    method: 'POST',
    path: '/api/token/',
    access: 'user',
    summary: 'Create a token; the response contains its whole value',
    body: z.object({ name, ...tokenFields }),
    data: tokenView,
  },
  getToken: {
    method: 'GET',
    path: '/api/token/:id',
    access: 'user',
    summary: 'One of your tokens',
    params: idParams,
    data: tokenView,
  },
  updateToken: {
    method: 'PUT',
    path: '/api/token/',
    access: 'user',
    summary: 'Change only the fields sent',
    query: z.object({ status_only: queryFlag }),
    body: z.object({ id, name: optional(name), status: optional(z.int().min(1).max(4)), ...tokenFields }),
    data: tokenView,
  },
  deleteToken: {
    method: 'DELETE',
    path: '/api/token/:id',
    access: 'user',
    summary: 'Delete a token permanently; it stops working immediately',
    params: idParams,
  },
  revealToken: {
    method: 'POST',
    path: '/api/token/:id/key',
    access: 'user',
    summary: 'Reveal the whole value of a token; audited',
    params: idParams,
    data: z.object({ key: z.string() }),
  },
  deleteTokens: {
    method: 'POST',
    path: '/api/token/batch',
    access: 'user',
    summary: 'Delete several of your tokens; returns their number',
    body: ids,
    data: z.int(),
  },
  revealTokens: {
    method: 'POST',
    path: '/api/token/batch/keys',
    access: 'user',
    summary: 'Reveal the whole values of several of your tokens, by id; audited',
    body: z.object({ ids: z.array(id).min(1).max(100) }),
    data: z.object({ keys: z.record(z.string(), z.string()) }),
  },
} as const satisfies Contract
