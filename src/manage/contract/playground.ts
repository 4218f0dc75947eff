import { z } from 'zod'
import { queryNumber } from './fields.ts'
import type { Contract } from './route.ts'

export const playgroundContract = {
  playground: {
    method: 'POST',
    path: '/api/playground/v1/*',
    access: 'user',
    summary:
      'A relay call, `/v1/…`, of a signed-in user: charged to you, or with `token_id` to one of your tokens and under its limits',
    query: z.object({ token_id: queryNumber }),
    reply: z.unknown(),
    isRelayed: true,
  },
} as const satisfies Contract
