import { z } from 'zod'
import type { Contract } from './route.ts'

export const requestIdText = z.string().regex(/^req_[0-9A-Z]{26}$/, 'must be a request id, req_…')

const sideView = z.object({
  content_type: z.string(),
  size: z.int().describe('Bytes of the whole body, also of a truncated one'),
  text: z.string().nullable().describe('Null for a form or a file: only its size is kept'),
  is_truncated: z.boolean().describe('Only the first 256 KiB are kept'),
  is_masked: z.boolean().describe('A part was replaced by a mask'),
})

const bodyView = z
  .object({
    request_id: z.string(),
    user_id: z.int(),
    token_id: z.int(),
    created_time: z.int(),
    path: z.string(),
    model: z.string(),
    status: z.int(),
    request: sideView.extend({
      parts: z
        .array(z.object({ name: z.string(), is_file: z.boolean(), size: z.int() }))
        .describe('The fields and files of a form'),
    }),
    answer: sideView,
  })
  .meta({ id: 'Body' })

export const bodyContract = {
  getBody: {
    method: 'GET',
    path: '/api/log/request/:request_id/body',
    access: 'user',
    summary: 'The kept bodies of a request, for its owner and for Root; audited',
    params: z.object({ request_id: requestIdText }),
    data: bodyView,
  },
} as const satisfies Contract
