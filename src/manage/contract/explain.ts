import { z } from 'zod'
import { ACTIONS, RULES } from '../../domain/explanation.ts'
import { logView } from './logs.ts'
import type { Contract } from './route.ts'

/** Fits into a URL, also if every character is escaped. */
const MAX_QUESTION = 4_096

const attemptView = z.object({
  channel_id: z.int().nullable().describe('For administrators'),
  channel_name: z.string().describe('For administrators'),
  status: z.union([z.int(), z.string()]).nullable().describe('The HTTP status, or why there is none'),
  ms: z.int(),
  provider: z
    .object({
      status: z.int(),
      code: z.string().optional(),
      message: z.string().optional(),
      request_id: z.string().optional(),
      retry_after_s: z.number().optional(),
    })
    .nullable()
    .describe('What the provider reported; for administrators'),
})

const explanationView = z
  .object({
    request: logView.nullable().describe('Null if only the error code of the text is known'),
    rule: z.enum(RULES).describe('What decided about the request; `none` if it succeeded'),
    sentences: z.array(z.string()),
    attempts: z.array(attemptView),
    action: z
      .object({ kind: z.enum(ACTIONS), target: z.string(), name: z.string().describe('Of the target') })
      .nullable()
      .describe('What the caller can do so that the next request succeeds'),
  })
  .meta({ id: 'Explanation' })

export const explainContract = {
  explainRequest: {
    method: 'GET',
    path: '/api/log/explain',
    access: 'user',
    summary:
      'Why a request failed. `q` is its ID, the ID that a provider gave it, or the text of an error. Users find their own requests',
    query: z.object({ q: z.string().trim().min(1, 'is missing').max(MAX_QUESTION) }),
    data: explanationView,
  },
} as const satisfies Contract
