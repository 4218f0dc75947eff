import { authorization } from '../auth.ts'
import type { Provider } from '../provider.ts'
import { falVideos } from '../videos/fal.ts'

// The answer to a job names the addresses to poll; a job that ended badly is `COMPLETED`, and its result a
// 4xx.
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
