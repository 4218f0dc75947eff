import { z } from 'zod'
import { requestIdText } from './bodies.ts'
import { id, optional, text } from './fields.ts'
import type { Contract } from './route.ts'

/** Where a request is sent again. */
export const destination = {
  model: optional(text({ min: 1, max: 255 })).describe('Absent: the model of the request'),
  channel_id: optional(id).describe('For administrators; absent: routing chooses. May be disabled'),
}

const figures = {
  request_id: z.string(),
  status: z.int(),
  answer: z.string().describe('The text of a chat; else the whole body'),
  prompt_tokens: z.int(),
  completion_tokens: z.int(),
  cost: z.string().describe('USD, exact'),
  ms: z.int(),
  first_ms: z.int().nullable().describe('Time to the first token, if it is known'),
}

const replayView = z
  .object({
    ...figures,
    model: z.string(),
    channel_id: z.int().nullable().describe('For administrators'),
    original: z.object({ ...figures, model: z.string() }),
  })
  .meta({ id: 'Replay' })

export const replayContract = {
  replay: {
    method: 'POST',
    path: '/api/replay',
    access: 'user',
    summary:
      'Send a request whose body is kept again, perhaps to another model or channel, and compare the answers. Charged to you; audited',
    body: z.object({ request_id: requestIdText, ...destination }),
    data: replayView,
  },
} as const satisfies Contract
