import { authorization } from '../auth.ts'
import type { Provider } from '../provider.ts'
import { falVideos } from '../videos/fal.ts'

// The response to a submission has the URLs to poll. A failed job is `COMPLETED`, and its result is a 4xx.
export const fal = {
  type: 1018,
  name: 'fal',
  baseUrl: 'https://queue.fal.run',
  auth: authorization('Key'),
  images: { native: '/{+model}' },
  videos: { native: '/{+model}' },
  dialects: { videos: { native: falVideos } },
  keyHint: '<id>:<secret>',
} satisfies Provider
