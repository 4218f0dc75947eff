import { z } from 'zod'
import { queryNumber } from './fields.ts'
import type { Contract } from './route.ts'

export const playgroundContract = {
  playground: {
    method: 'POST',
    path: '/api/playground/v1/*',
    access: 'user',
    summary:
      'A call of the relay, `/v1/…`, for whoever is signed in: charged to you, or with `token_id` to a token of yours and under its limits',
    query: z.object({ token_id: queryNumber }),
    reply: z.unknown(),
    isRelayed: true,
  },
} as const satisfies Contract
