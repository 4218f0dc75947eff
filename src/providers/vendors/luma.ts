import { bearer } from '../auth.ts'
import type { Provider } from '../provider.ts'
import { lumaVideos } from '../videos/luma.ts'

// A job is polled at /v1/generations/{id}.
export const luma = {
  type: 1017,
  name: 'Luma',
  baseUrl: 'https://api.lumalabs.ai/dream-machine',
  auth: bearer,
  images: { native: '/v1/generations/image' },
  videos: { native: '/v1/generations/video' },
  dialects: { videos: { native: lumaVideos } },
  keyHint: 'luma-…',
} satisfies Provider
