import { z } from 'zod'
import { VIDEO_STATES } from '../../domain/video.ts'
import { optional, paged, pageOf, queryFlag, queryNumber, queryText, text } from './fields.ts'
import { entryView } from './ledger.ts'
import type { Contract } from './route.ts'

const params = z.object({
  id: z.string().regex(/^video_[A-Za-z0-9]{24}$/, 'must be the id of a video job, video_…'),
})

const refundView = z.object({ time: z.int(), by: z.string(), reason: z.string(), cost: z.string() })

const videoView = z
  .object({
    id: z.string(),
    request_id: z.string(),
    user_id: z.int(),
    username: z.string(),
    token_id: z.int(),
    token_name: z.string(),
    channel: z.int().describe('For administrators'),
    channel_name: z.string().describe('For administrators; empty if the channel was deleted'),
    model: z.string(),
    upstream_model: z.string().describe('For administrators'),
    status: z.enum(VIDEO_STATES),
    progress: z.number().describe('From 0 to 1'),
    created_at: z.int(),
    started_at: z.int().nullable(),
    completed_at: z.int().nullable(),
    expires_at: z.int(),
    seconds: z.string(),
    size: z.string(),
    n: z.int(),
    results: z.int().describe('Number of videos that can be fetched'),
    quota: z.int().describe('Units, rounded up'),
    cost: z.string().describe('USD, exact; 0 while it is not known whether the provider accepted the job'),
    is_in_doubt: z.boolean(),
    error: z.object({ code: z.string(), message: z.string() }).nullable(),
    refund: refundView.nullable(),
    is_refundable: z.boolean(),
  })
  .meta({ id: 'VideoJob' })

const status = z
  .enum([...VIDEO_STATES, ''])
  .transform(value => (value === '' ? undefined : value))
  .optional()

export const videoContract = {
  listVideos: {
    method: 'GET',
    path: '/api/video/',
    access: 'user',
    summary: 'Video jobs, newest first: your own, or all for administrators',
    query: paged({
      status,
      model: queryText.describe('`%` stands for any characters'),
      channel: queryNumber,
      user_id: queryNumber,
      start_timestamp: queryNumber,
      end_timestamp: queryNumber,
      unrefunded: queryFlag.describe('Failed, billed and not refunded'),
    }),
    data: pageOf(videoView),
  },
  getVideo: {
    method: 'GET',
    path: '/api/video/:id',
    access: 'user',
    summary:
      'One video job with its request, the time of each state, and for administrators its ledger entries',
    params,
    data: videoView.extend({
      parameters: z.record(z.string(), z.unknown()),
      states: z.record(z.string(), z.int()),
      remixed_from: z.string().nullable(),
      poll_error: z.string().describe('Why the last poll of the provider failed; for administrators'),
      upstream_id: z.string().describe('For administrators'),
      price: z.string(),
      entries: z.array(entryView),
    }),
  },
  videoContent: {
    method: 'GET',
    path: '/api/video/:id/content',
    access: 'user',
    summary: 'The video of a completed job, streamed; accepts `Range`, and `index` if there are several',
    params,
    query: z.object({ index: queryNumber, variant: queryText }),
    reply: z.unknown(),
  },
  deleteVideo: {
    method: 'DELETE',
    path: '/api/video/:id',
    access: 'user',
    summary: 'Delete a finished job of your own, also at the provider if it supports that',
    params,
  },
  refundVideo: {
    method: 'POST',
    path: '/api/video/:id/refund',
    access: 'admin',
    summary: 'Refund a failed job to its user and token, once, with an optional reason',
    params,
    body: z.object({ reason: optional(text({ max: 500 })) }).nullish(),
    data: videoView,
  },
} as const satisfies Contract
