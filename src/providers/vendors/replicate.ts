import { bearer } from '../auth.ts'
import type { Provider } from '../provider.ts'
import { replicateVideos } from '../videos/replicate.ts'

// A prediction is polled at /v1/predictions/{id}; its output is one URL or a list, which expire after an hour.
export const replicate = {
  type: 56,
  name: 'Replicate',
  baseUrl: 'https://api.replicate.com',
  auth: bearer,
  images: { native: '/v1/models/{+model}/predictions' },
  videos: { native: '/v1/models/{+model}/predictions' },
  dialects: { videos: { native: replicateVideos } },
  keyHint: 'r8_…',
} satisfies Provider
