import { bearer } from '../auth.ts'
import type { Provider } from '../provider.ts'
import { runwayVideos } from '../videos/runway.ts'

// With an image the job goes to /v1/image_to_video instead. Jobs are polled at /v1/tasks/{id}, at most every
// 5 s.
export const runway = {
  type: 1016,
  name: 'Runway',
  baseUrl: 'https://api.dev.runwayml.com',
  auth: bearer,
  headers: { 'x-runway-version': '2024-11-06' },
  images: { native: '/v1/text_to_image' },
  videos: { native: '/v1/text_to_video' },
  dialects: { videos: { native: runwayVideos } },
  keyHint: 'key_…',
} satisfies Provider
