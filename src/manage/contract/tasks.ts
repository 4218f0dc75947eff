import { z } from 'zod'
import { paged, pageOf, queryNumber, queryText } from './fields.ts'
import type { Contract } from './route.ts'

/** A video job in the form that existing clients read. */
const taskView = z
  .object({
    id: z.int(),
    task_id: z.string().describe('The id of the video job'),
    platform: z.string().describe('The type of the channel as a string; for administrators'),
    user_id: z.int(),
    username: z.string(),
    group: z.string(),
    channel_id: z.int().describe('For administrators'),
    quota: z.int().describe('Units, rounded up'),
    action: z.enum(['generate', 'remixGenerate']),
    status: z.enum(['QUEUED', 'IN_PROGRESS', 'SUCCESS', 'FAILURE']),
    fail_reason: z.string(),
    progress: z.string().describe('Such as `30%`'),
    created_at: z.int(),
    updated_at: z.int().describe('Time of the last change of state'),
    submit_time: z.int(),
    start_time: z.int().describe('0 until then'),
    finish_time: z.int().describe('0 until then'),
    properties: z.object({ origin_model_name: z.string(), upstream_model_name: z.string() }),
  })
  .meta({ id: 'Task' })

const filters = {
  task_id: queryText,
  status: queryText,
  action: queryText,
  start_timestamp: queryNumber,
  end_timestamp: queryNumber,
}

export const taskContract = {
  listTasks: {
    method: 'GET',
    path: '/api/task/',
    access: 'admin',
    summary:
      'Video jobs of all users in the form of existing clients, newest first; `/api/video/` has more fields',
    query: paged({ ...filters, platform: queryText, channel_id: queryNumber }),
    data: pageOf(taskView),
  },
  listOwnTasks: {
    method: 'GET',
    path: '/api/task/self',
    access: 'user',
    summary: 'Your own video jobs in the form of existing clients, newest first',
    query: paged(filters),
    data: pageOf(taskView),
  },
} as const satisfies Contract
