import { authorization } from '../auth.ts'
import { baseUrlField } from '../fields.ts'
import type { Provider } from '../provider.ts'
import { viduVideos } from '../videos/vidu.ts'

// One image goes to /ent/v2/img2video, two to /start-end2video, more to /reference2video. Jobs are polled at
// /ent/v2/tasks/{id}/creations.
export const vidu = {
  type: 52,
  name: 'Vidu',
  baseUrl: 'https://api.vidu.cn',
  auth: authorization('Token'),
  videos: { native: '/ent/v2/text2video' },
  dialects: { videos: { native: viduVideos } },
  fields: [baseUrlField('Leave blank for China; elsewhere https://api.vidu.com')],
  keyHint: 'vda_…',
} satisfies Provider
