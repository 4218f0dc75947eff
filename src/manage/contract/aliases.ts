import { z } from 'zod'
import { id, idParams, modelName, optional, paged, pageOf, queryText } from './fields.ts'
import type { Contract } from './route.ts'

const status = z.union([z.literal(1), z.literal(2)], { error: 'must be 1 (enabled) or 2 (disabled)' })
/** No comma: lists of models are also sent as one comma-separated text, and a token may list an alias there. */
const aliasName = modelName.refine(name => !name.includes(','), 'must not contain a comma')
/** Null and an empty list both mean any channel. */
const channelIds = z.array(id).max(1_000).nullish()

const aliasView = z
  .object({
    id: z.int(),
    name: z.string(),
    target: z.string(),
    channel_ids: z.array(z.int()).nullable().describe('Null or empty: every channel that lists the target'),
    status: z.int().describe('1 enabled, 2 disabled'),
    created_time: z.int(),
  })
  .meta({ id: 'Alias' })

export const aliasContract = {
  listAliases: {
    method: 'GET',
    path: '/api/alias/',
    access: 'admin',
    summary: 'List aliases, newest first; keyword is a part of the name or target',
    query: paged({ keyword: queryText }),
    data: pageOf(aliasView),
  },
  createAlias: {
    method: 'POST',
    path: '/api/alias/',
    access: 'admin',
    summary: 'Create an alias: requests for its name are served as the target, which may be another alias',
    body: z.object({ name: aliasName, target: modelName, channel_ids: channelIds, status: optional(status) }),
    data: aliasView,
  },
  getAlias: {
    method: 'GET',
    path: '/api/alias/:id',
    access: 'admin',
    summary: 'One alias',
    params: idParams,
    data: aliasView,
  },
  updateAlias: {
    method: 'PUT',
    path: '/api/alias/',
    access: 'admin',
    summary: 'Change only the fields sent; channel_ids null means any channel',
    body: z.object({
      id,
      name: optional(aliasName),
      target: optional(modelName),
      channel_ids: channelIds,
      status: optional(status),
    }),
    data: aliasView,
  },
  deleteAlias: {
    method: 'DELETE',
    path: '/api/alias/:id',
    access: 'admin',
    summary: 'Delete an alias; a model with the same name becomes reachable again',
    params: idParams,
  },
} as const satisfies Contract
